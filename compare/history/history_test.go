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

// Whatever happens to a file, the others are read, what can be read is what was written, what is lost is told, and its
// run can be recorded again.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s := storeIn(t, dir)
	for day := 1; day <= 3; day++ {
		put(t, s, "a", day)
	}
	whole, err := os.ReadFile(s.path("a-2"))
	if err != nil {
		t.Fatal(err)
	}
	filestest.Each(t, whole, filestest.Lines(whole), func(damaged []byte, what string) {
		if err := os.WriteFile(s.path("a-2"), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		again, err := Open(dir, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		_, err = os.Stat(s.path("a-2") + ".damaged")
		got, told := newest(t, again, "a", 9), strings.Contains(log.String(), "record of the history is damaged")
		if whole := bytes.Equal(damaged, whole); told == whole || told != (err == nil) || whole != (got == "a-1 a-2 a-3") {
			t.Errorf("%s: %s, told %v, aside %v", what, got, told, err)
		}
		put(t, again, "a", 2)
		if got := newest(t, again, "a", 9); got != "a-1 a-2 a-3" {
			t.Errorf("%s: %s after it was recorded again", what, got)
		}
		_ = os.Remove(s.path("a-2") + ".damaged")
	})
}

// The oldest record makes room for a new one when there are too many, and its run is not recorded again.
func TestTheFilesAreBounded(t *testing.T) {
	s := storeIn(t, t.TempDir())
	large := strings.Repeat("x", 8<<20)
	for day := 1; day <= 10; day++ {
		run := fmt.Sprint("a-", day)
		r := &compare.Record{Run: run, Plan: "a", Time: time.Unix(int64(day), 0), Version: large}
		if err := s.Put(run, r); err != nil {
			t.Fatal(err)
		}
	}
	if got := newest(t, s, "a", 10); s.size > mostBytes || got != "a-4 a-5 a-6 a-7 a-8 a-9 a-10" || !s.Has("a-1") {
		t.Errorf("%d bytes, records %s, a-1 is known %v", s.size, got, s.Has("a-1"))
	}
}

// What the system refuses says nothing about the files, which stay where they are.
func TestAFolderThatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, Dir), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a file was opened")
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
}
