package dataset

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/rows"
)

// million is the number of rows of the trace whose memory is measured.
const million = 1_000_000

// writeMillion writes a trace of a million rows. Half of their blocks are new.
func writeMillion(out io.Writer) error {
	w := bufio.NewWriter(out)
	next := uint64(100)
	for i := range uint64(million) {
		shared := next - 50
		fmt.Fprintf(w, `{"timestamp": %d, "input_length": 3000, "output_length": %d, "hash_ids": [0, %d, %d, %d, %d, %d]}`+"\n",
			i*7, 1+i%500, shared, shared+1, next, next+1, next+2)
		next += 3
	}
	return w.Flush()
}

// inChild is set in the process whose memory is measured.
const inChild = "SPATE_MEASURE_MEMORY"

// TestMillionRows builds and walks a trace of a million rows in a separate process, and reads its peak memory from the
// kernel. It must take less than 200 MiB to build, with 3 million different blocks, and far less to read, as an agent
// does.
func TestMillionRows(t *testing.T) {
	if path := os.Getenv(inChild); path != "" {
		measured(t, path)
		return
	}
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("this system does not tell the memory of a process")
	}
	program, path := measurable(t), filepath.Join(t.TempDir(), "million.jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeMillion(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	built := peakOf(t, program, path, "build")
	walked := peakOf(t, program, path, "walk")
	t.Logf("building took %d MiB at most, walking %d MiB", built>>10, walked>>10)
	if built > 200<<10 || walked > 64<<10 {
		t.Errorf("building took %d KiB, the limit is 200 MiB; walking %d KiB, the limit is 64 MiB", built, walked)
	}
}

// raceDetector reports whether the test was built with the race detector.
func raceDetector() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// measurable returns a test binary whose memory is the program's own: this binary, or one built without the race
// detector, which would take several times the memory.
func measurable(t *testing.T) (program string) {
	t.Helper()
	if !raceDetector() {
		return os.Args[0]
	}
	program = filepath.Join(t.TempDir(), "measured")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-race=false", "-o", program,
		".").CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v: %s", err, out)
	}
	return program
}

// peakOf runs this test in a separate process and returns its peak memory in KiB.
func peakOf(t *testing.T, program, path, what string) (kib int) {
	t.Helper()
	child := exec.CommandContext(t.Context(), program, "-test.run=^TestMillionRows$", "-test.v")
	child.Env = append(os.Environ(), inChild+"="+what+":"+path)
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, peak, _ := bytes.Cut(out, []byte("VmHWM:"))
	if _, err := fmt.Sscanf(string(peak), "%d kB", &kib); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return kib
}

// measured runs in the measured process.
func measured(t *testing.T, job string) {
	what, path, _ := strings.Cut(job, ":")
	if what == "build" {
		buildFile(t, path)
	} else {
		walkFile(t, path+".rows")
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout.Write(status)
}

// buildFile builds the rows beside the source.
func buildFile(t testing.TB, path string) *spatev1.Dataset {
	src, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.Create(path + ".rows")
	if err != nil {
		t.Fatal(err)
	}
	d, _, err := Build(t.Context(), dst, src, mooncakeOf(&spatev1.TraceContent{}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := dst.Close(); err != nil {
		t.Fatal(err)
	}
	return d
}

// walkFile reads all rows.
func walkFile(t testing.TB, path string) {
	r, err := rows.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var row rows.Row
	for i := range r.Len() {
		if err := r.Read(i, &row); err != nil || len(row.Blocks) != 6 {
			t.Fatalf("row %d: %v", i, err)
		}
	}
	if r.Len() != million {
		t.Fatalf("%d rows", r.Len())
	}
}

// BenchmarkBuild builds traces of 100,000 rows.
func BenchmarkBuild(b *testing.B) {
	const rows = 100_000
	var mooncake, azure bytes.Buffer
	writeMooncake(&mooncake, rows, 8, 20_000)
	azure.WriteString("TIMESTAMP,ContextTokens,GeneratedTokens\n")
	for i := range rows {
		fmt.Fprintf(&azure, "2024-05-10 %02d:%02d:%02d.%06d+00:00,%d,%d\n", i/36000, i/600%60, i/10%60, i%10,
			1+i%5000, 1+i%300)
	}
	for name, c := range map[string]struct {
		w      *spatev1.Workload
		source []byte
	}{
		"mooncake": {mooncakeOf(&spatev1.TraceContent{}), mooncake.Bytes()},
		"azure":    {azureOf(&spatev1.TraceContent{}), azure.Bytes()},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(c.source)))
			b.ReportAllocs()
			size := uint64(0)
			for b.Loop() {
				d, _, err := Build(b.Context(), io.Discard, bytes.NewReader(c.source), c.w, Options{})
				if err != nil {
					b.Fatal(err)
				}
				size = d.GetSize()
			}
			b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64(size)/rows, "B/row")
		})
	}
}

// BenchmarkRead reads rows in an order that no cache predicts.
func BenchmarkRead(b *testing.B) {
	var source bytes.Buffer
	writeMooncake(&source, 20_000, 8, 20_000)
	path := filepath.Join(b.TempDir(), "trace")
	if err := os.WriteFile(path, source.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	n := buildFile(b, path).GetRows()
	r, err := rows.Open(path + ".rows")
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	var row rows.Row
	for name, read := range map[string]func(i uint64) error{
		"whole": func(i uint64) error { return r.Read(i, &row) },
		"head":  func(i uint64) error { return r.ReadMetadata(i, &row) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := uint64(0); b.Loop(); i += 7919 {
				if err := read(i % n); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
