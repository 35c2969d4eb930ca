package dataset

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/rows"
)

// manyRows is the number of rows of the trace whose memory is measured. docs/benchmarks.md has figures of a million.
var manyRows = flag.Uint64("dataset.rows", 100_000, "rows of the trace whose memory is measured")

// writeMany writes a trace of many rows. Half of their blocks are new.
func writeMany(out io.Writer) error {
	w := bufio.NewWriter(out)
	next := uint64(100)
	for i := range *manyRows {
		shared := next - 50
		fmt.Fprintf(w, `{"timestamp": %d, "input_length": 3000, "output_length": %d, "hash_ids": [0, %d, %d, %d, %d, %d]}`+"\n",
			i*7, 1+i%500, shared, shared+1, next, next+1, next+2)
		next += 3
	}
	return w.Flush()
}

// inChild is set in the process whose memory is measured.
const inChild = "SPATE_MEASURE_MEMORY"

// TestMemoryOfManyRows builds and walks a trace in a separate process, and reads its peak memory from the kernel. A
// million rows, with 3 million different blocks, must take less than 200 MiB to build; to read, as an agent does, it is
// far less, and does not depend on the number of rows.
func TestMemoryOfManyRows(t *testing.T) {
	if path := os.Getenv(inChild); path != "" {
		measured(t, path)
		return
	}
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("this system does not tell the memory of a process")
	}
	program, path := measurable(t), filepath.Join(t.TempDir(), "trace.jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeMany(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	built := peakOf(t, program, path, "build")
	walked := peakOf(t, program, path, "walk")
	t.Logf("building took %d MiB at most, walking %d MiB", built>>10, walked>>10)
	if limit := 60<<10 + int(*manyRows*140>>10); built > limit || walked > 64<<10 {
		t.Errorf("building took %d KiB, the limit is %d KiB; walking %d KiB, the limit is 64 MiB", built, limit, walked)
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
	child := exec.CommandContext(t.Context(), program, "-test.run=^TestMemoryOfManyRows$", "-test.v",
		fmt.Sprint("-dataset.rows=", *manyRows))
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
	if r.Len() != *manyRows {
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

// repeating is a reader that repeats a text.
type repeating struct {
	text string
	at   int
	read uint64
}

func (e *repeating) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		m := copy(b[n:], e.text[e.at:])
		n, e.at = n+m, (e.at+m)%len(e.text)
	}
	e.read += uint64(n)
	return n, nil
}

// packed compresses size bytes of a text.
func packed(t *testing.T, text io.Reader, size int64, by func(io.Writer) io.WriteCloser) []byte {
	t.Helper()
	var out bytes.Buffer
	w := by(&out)
	if _, err := io.CopyN(w, text, size); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// An endless source and a decompression bomb end with an error, before they fill a disk.
func TestSourcesBeyondBounds(t *testing.T) {
	row := `{"prompt": "` + strings.Repeat("a", 5000) + `"}` + "\n"
	zeros := strings.Repeat("\x00", 1<<16)
	byGzip := func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
	byZstd := func(w io.Writer) io.WriteCloser {
		z, err := zstd.NewWriter(w)
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	jsonl := jsonlOf(&spatev1.FileContent{Osl: 5})
	for name, c := range map[string]struct {
		src  io.Reader
		most uint64
		says string
		rows int // maximum bytes of rows
	}{
		"endless rows": {&repeating{text: row}, 1 << 20, "more than 1.0 MiB of text", 2 << 20},
		"endless line": {&repeating{text: zeros}, 1 << 40, "line 1 is longer than 256 MiB", 1 << 20},
		"endless element": {&repeating{text: strings.Repeat("[", 1<<16)}, 1 << 40,
			"element 1 is longer than 256 MiB", 1 << 20},
		"endless spaces": {&repeating{text: strings.Repeat(" ", 1<<16)}, 1 << 21,
			"more than 2.0 MiB of text", 1 << 20},
		"gzip bomb": {bytes.NewReader(packed(t, &repeating{text: zeros}, 20<<20, byGzip)), 0,
			"decompression bomb", 1 << 20},
		"zstd bomb": {bytes.NewReader(packed(t, &repeating{text: zeros}, 20<<20, byZstd)), 0,
			"decompression bomb", 1 << 20},
		"gzip beyond bounds": {bytes.NewReader(packed(t, &repeating{text: row}, 3<<20, byGzip)), 1 << 20,
			"more than 1.0 MiB of text", 2 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "endless element" && raceDetector() {
				t.Skip("each of its 256 MiB is looked at: minutes with the race detector")
			}
			written := new(counter)
			_, _, err := Build(t.Context(), written, c.src, jsonl, Options{MaxBytes: c.most})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %q", err, c.says)
			}
			if int(*written) > c.rows {
				t.Errorf("%d bytes of rows were written", *written)
			}
		})
	}
	small := packed(t, &repeating{text: row}, 100*int64(len(row)), byGzip) // the same compression ratio, but harmless
	if _, _, err := Build(t.Context(), io.Discard, bytes.NewReader(small), jsonl, Options{}); err != nil {
		t.Errorf("a small compressed file: %v", err)
	}
}

// counter counts the bytes written.
type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
