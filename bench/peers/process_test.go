package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	line := "42 (a) b (c)) S 7 5 3 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 1 0 100 999 10 18446744073709551615 0 0 0\n"
	p, err := parseStat(line)
	if err != nil {
		t.Fatal(err)
	}
	want := process{pid: 42, parent: 7, session: 3, own: 2, waited: 0.5, resident: 10 * int64(os.Getpagesize()),
		state: 'S'}
	if p != want {
		t.Errorf("%+v, want %+v", p, want)
	}
	for _, bad := range []string{"", "42", "42 (x) S 1 2", "x (y) " + strings.Repeat("1 ", 30),
		"1 (y) S " + strings.Repeat("z ", 30)} {
		if p, err := parseStat(bad); err == nil {
			t.Errorf("%q: %+v, want an error", bad, p)
		}
	}
}

// CPU time of a tool's children counts, also after they have ended, and none of the tool's processes outlives it.
func TestExecuteCountsChildren(t *testing.T) {
	script := `sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; sleep 1000 & echo "$!"`
	said := &tail{}
	usage, looks, err := execute(t.Context(), 0, Command{Args: []string{"sh", "-c", script}}, said)
	if err != nil {
		t.Skipf("taskset is not there, or holds nothing on core 0: %v: %s", err, said.last(3))
	}
	if usage.CPUSeconds < 0.05 || usage.PeakBytes == 0 || usage.Processes == 0 || len(looks) == 0 {
		t.Errorf("%+v after %d looks: the child's time is missing", usage, len(looks))
	}
	text, err := os.ReadFile("/proc/" + said.last(1) + "/stat")
	if p, bad := parseStat(string(text)); err == nil && bad == nil && p.state != 'Z' &&
		strings.Contains(string(text), "(sleep)") {
		t.Errorf("the child outlives the tool: %s", text)
	}
}

func TestExecuteEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	usage, _, err := execute(ctx, 0, Command{Args: []string{"sh", "-c", "sleep 1000; true"}}, &tail{})
	if !errors.Is(err, errTooLong) {
		t.Errorf("%v after %.1f s, want %v", err, usage.Seconds, errTooLong)
	}
}

func TestSince(t *testing.T) {
	u := Usage{CPUSeconds: 4}
	looks := []look{{0, 0}, {100, 1}, {200, 1}, {300, 3}}
	for from, want := range map[int64]string{0: "4.00", 50: "3.50", 150: "3.00", 250: "2.00", 301: "n/a", -1: "n/a"} {
		if got := number(u.since(looks, from)); got != want {
			t.Errorf("since %d: %s, want %s", from, got, want)
		}
	}
}
