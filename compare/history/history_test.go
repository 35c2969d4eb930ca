package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/filestest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// storeIn opens the store in a directory until the test ends.
func storeIn(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // some tests close it themselves
	return s
}

// put records a run of a plan that began on a day.
func put(t *testing.T, s *Store, plan string, day int) {
	t.Helper()
	run := fmt.Sprint(plan, "-", day)
	at := time.Date(2026, 1, day, 0, 0, 0, 0, time.FixedZone("", 3600))
	if err := s.Put(run, &compare.Record{Run: run, Plan: plan, Time: at}); err != nil {
		t.Fatal(err)
	}
}

// newest returns the newest runs, the oldest first.
func newest(t *testing.T, s *Store, plan string, most int) string {
	t.Helper()
	records := s.Newest(plan, most)
	var ids []string
	for _, r := range records {
		ids = append(ids, r.Run)
	}
	return strings.Join(ids, " ")
}

// Records are returned by plan and time, whatever the order in which they came, also after the file was opened again. A
// plan whose name starts with that of another one is another one.
func TestRecordsStayInOrder(t *testing.T) {
	dir := t.TempDir()
	s := storeIn(t, dir)
	for _, day := range []int{5, 2, 9} {
		put(t, s, "a", day)
		put(t, s, "a b", day+1)
	}
	put(t, s, "", 20)
	if err := s.Put("none", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = storeIn(t, dir)
	for _, c := range []struct {
		plan string
		most int
		want string
	}{
		{"a", 10, "a-2 a-5 a-9"}, {"a", 2, "a-5 a-9"}, {"a b", 1, "a b-10"}, {"b", 5, ""},
		{"", 3, "a-9 a b-10 -20"}, {"", 100, "a-2 a b-3 a-5 a b-6 a-9 a b-10 -20"},
	} {
		if got := newest(t, s, c.plan, c.most); got != c.want {
			t.Errorf("%d of %q: %q, want %q", c.most, c.plan, got, c.want)
		}
	}
	if plans := s.Plans(); !slices.Equal(plans, []string{"", "a", "a b"}) {
		t.Errorf("plans %q", plans)
	}
	if !s.Has("a-2") || !s.Has("none") || s.Has("a-3") {
		t.Error("it is not known which runs were recorded")
	}
	for _, run := range []string{"a-5", "none", "unknown"} {
		if err := s.Remove(run); err != nil {
			t.Errorf("%s: %v", run, err)
		}
	}
	if got := newest(t, s, "a", 10); got != "a-2 a-9" {
		t.Errorf("after a removal: %s", got)
	}
}

// Whatever happens to the file, it is opened, what can be read is what was written, what is lost is told, and the
// runs can be recorded again.
func TestDamage(t *testing.T) {
	const runs = 12
	dir := t.TempDir()
	s := storeIn(t, dir)
	for day := 1; day <= runs; day++ {
		put(t, s, "a", day)
	}
	if err := s.Remove("a-12"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, File)
	whole, err := os.ReadFile(path)
	if err != nil || s.Close() != nil {
		t.Fatal(err)
	}
	filestest.Each(t, whole, filestest.Lines(whole), func(damaged []byte, what string) {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		testDamaged(t, dir, what)
	})
}

// testDamaged opens a damaged file of the runs a-1 to a-11, and a-12, which was removed.
func testDamaged(t *testing.T, dir, what string) {
	t.Helper()
	var log strings.Builder
	s, err := Open(dir, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer s.Close()
	var lost []int
	for day := 1; day <= 11; day++ {
		if run := fmt.Sprint("a-", day); !s.Has(run) {
			lost = append(lost, day)
		}
	}
	got := s.Newest("a", 100)
	for _, r := range got {
		if r.Plan != "a" || r.Run != fmt.Sprint("a-", r.Time.Day()) {
			t.Errorf("%s: there is %+v", what, r)
		}
	}
	told := strings.Contains(log.String(), fmt.Sprintf(`"history is read" runs=%d`, len(s.runs)))
	aside := strings.Contains(log.String(), "history is damaged")
	_, err = os.Stat(filepath.Join(dir, File+".damaged"))
	if !told || aside != (err == nil) || len(lost) > 0 && !aside && s.number != int64(len(s.runs)) {
		t.Errorf("%s: lost %v, aside %v: %v\n%s", what, lost, aside, err, log.String())
	}
	for _, day := range lost[:min(1, len(lost))] {
		put(t, s, "a", day)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	log.Reset()
	if s, err = Open(dir, slog.New(slog.NewTextHandler(&log, nil))); err != nil || strings.Contains(log.String(), "damaged") ||
		len(s.runs) < len(got) || len(lost) > 0 && !s.Has(fmt.Sprint("a-", lost[0])) {
		t.Errorf("%s: not built again: %v\n%s", what, err, log.String())
	}
	_ = s.Close()
	_ = os.Remove(filepath.Join(dir, File+".damaged"))
}

// FuzzFile opens files of arbitrary lines whose checksums are right: none keeps a store from opening and recording.
func FuzzFile(f *testing.F) {
	line := lineOf(head{Number: 1, Run: "a-1", Plan: "a"}, []byte(`{"run":"a-1","plan":"a","stages":[{}]}`))
	f.Add(line[sumLength:])
	f.Add([]byte("{\"number\":3,\"run\":\"a-1\"} null\n{\"number\":9223372036854775807} {}\n{} []\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir, file := t.TempDir(), []byte(nil)
		for line := range bytes.Lines(text) {
			file = append(file, sumOf(bytes.TrimSuffix(line, []byte("\n")))...)
			file = append(file, line...)
		}
		if err := os.WriteFile(filepath.Join(dir, File), file, 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			s := storeIn(t, dir)
			s.Newest("", 100)
			s.Newest("a", 1)
			put(t, s, "a", 1)
			if err := s.Close(); err != nil || !s.Has("a-1") {
				t.Fatal(err)
			}
		}
	})
}

// Lines that do not count any more are left out when they are more than those that do, and the oldest records when
// there are too many: their runs are not recorded again.
func TestTheFileIsBounded(t *testing.T) {
	dir := t.TempDir()
	s := storeIn(t, dir)
	large := strings.Repeat("x", maxLine/2)
	for day := 1; day <= 10; day++ {
		run := fmt.Sprint("a-", day)
		r := &compare.Record{Run: run, Plan: "a", Time: time.Unix(int64(day), 0), Version: large}
		if err := s.Put(run, r); err != nil {
			t.Fatal(err)
		}
	}
	if got := newest(t, s, "a", 10); s.live > mostLive || s.end > 2*s.live+slack || got != "a-4 a-5 a-6 a-7 a-8 a-9 a-10" {
		t.Errorf("%d bytes of %d, records %s", s.live, s.end, got)
	}
	if !s.Has("a-1") {
		t.Error("the oldest run would be recorded again")
	}
	for day := 4; day <= 9; day++ {
		if err := s.Remove(fmt.Sprint("a-", day)); err != nil {
			t.Fatal(err)
		}
	}
	if got := newest(t, s, "a", 10); s.end > 2*s.live+slack || got != "a-10" {
		t.Errorf("%d bytes of %d, records %s", s.live, s.end, got)
	}
	if err := s.Put("b", &compare.Record{Run: "b", Version: large + large}); err == nil {
		t.Error("a record beyond the limit was taken")
	}
}

// What the system refuses says nothing about the file, which stays where it is.
func TestAFileThatCannotBeOpenedIsNotDamaged(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, File), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a folder was opened")
	}
	if _, err := os.Stat(filepath.Join(dir, File)); err != nil {
		t.Error(err)
	}
}

// runIn writes the results of a run of one stage, and returns its ID.
func runIn(t *testing.T, dir string, day int, ttft float64, verdict trust.Verdict) string {
	t.Helper()
	id, plan := fmt.Sprint("p-", day), "p"
	begin := time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC).Format(time.RFC3339)
	text, err := json.Marshal(results.Result{
		Run: results.RunResult{ID: id, Plan: &plan, BeginTime: &begin, Definitions: 1},
		Stages: []results.StageResult{{Target: "x", Complete: true, Trust: trust.Trust{Verdict: verdict},
			Latencies: results.Latencies{TTFT: &histogram.Summary{Mean: ttft, P50: ttft, P90: ttft, P99: ttft}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, id), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, id, results.File), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return id
}

// A run is compared with the last one before it that can be believed, unless that was removed. What was recorded stays
// when the run is removed.
func TestRunsAreCompared(t *testing.T) {
	dir := t.TempDir()
	s := storeIn(t, dir)
	take := func(run string) {
		if err := s.Take(run, func(run string) string { return filepath.Join(dir, run) }); err != nil {
			t.Fatal(err)
		}
	}
	first := runIn(t, dir, 1, 100, trust.Valid)
	take(first)
	take(runIn(t, dir, 2, 500, trust.Invalid))
	take(runIn(t, dir, 3, 110, trust.Valid))
	if err := os.RemoveAll(filepath.Join(dir, "p-3")); err != nil {
		t.Fatal(err)
	}
	take(runIn(t, dir, 4, 120, trust.Valid))
	take(runIn(t, dir, 5, 60, trust.Valid))
	metric, err := compare.MetricNamed("ttft_ms.p99")
	if err != nil {
		t.Fatal(err)
	}
	lines := compare.Lines(s.Newest("p", 10), metric)
	if len(lines) != 1 {
		t.Fatalf("lines %+v", lines)
	}
	answer, err := s.Read("p", "ttft_ms.p99", 10, func(run string) bool { return run == "p-3" })
	if err != nil {
		t.Fatal(err)
	}
	for i, of := range [][]*spatev1.HistoryLine{lines, answer.GetLines()} {
		var got []string
		for _, p := range of[0].Points {
			text := fmt.Sprintf("%s=%g", p.Run, p.Value)
			if p.Change != nil {
				text += fmt.Sprintf(" %+.2f %s than %s", *p.Change, p.Outcome, p.Against)
			}
			if p.Removed {
				text += " removed"
			}
			got = append(got, text)
		}
		want := []string{"p-1=100", "p-2=500", "p-3=110 +0.10 untested than p-1", "p-4=120", "p-5=60 -0.50 untested than p-4"}
		if i == 1 {
			want[2] += " removed"
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A run that is removed while its requests are read leaves no record, also after the file was opened again.
func TestARunRemovedWhileItIsRecorded(t *testing.T) {
	dir := t.TempDir()
	s := storeIn(t, dir)
	run := runIn(t, dir, 1, 100, trust.Valid)
	err := s.Take(run, func(string) string {
		if err := s.Remove(run); err != nil {
			t.Error(err)
		}
		return filepath.Join(dir, run)
	})
	if got := newest(t, s, "p", 10); err != nil || got != "" {
		t.Errorf("%v, recorded: %q", err, got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = storeIn(t, dir)
	if err := s.Put(run, &compare.Record{Run: run, Plan: "p"}); err != nil || newest(t, s, "p", 10) != "" {
		t.Errorf("%v, recorded after a restart: %q", err, newest(t, s, "p", 10))
	}
}

// BenchmarkNewest reads the newest 100 of 2,000 runs with four stages of all metrics, as the page does.
func BenchmarkNewest(b *testing.B) {
	s, err := Open(b.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	numbers := map[string]compare.Number{}
	for _, m := range compare.Metrics {
		numbers[m.Name] = compare.Number{Value: 123.456, Change: new(0.0123), Outcome: compare.Unclear}
	}
	for n := range 2000 {
		r := &compare.Record{Run: fmt.Sprint("nightly-20260101T000000Z-", n), Plan: "nightly", Time: time.Unix(int64(n), 0)}
		for load := range 4 {
			r.Stages = append(r.Stages, compare.StageRecord{Target: "vllm", Load: fmt.Sprint(load), Numbers: numbers})
		}
		if err := s.Put(r.Run, r); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		records := s.Newest("", 100)
		if len(compare.Lines(records, &compare.Metrics[0])) != 4 {
			b.Fatal(len(records))
		}
	}
	b.ReportMetric(float64(s.end)/8000, "B/stage")
}
