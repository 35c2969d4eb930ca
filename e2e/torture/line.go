package torture

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/spate-load/spate/e2e/torture/judge"
	"github.com/spate-load/spate/e2e/torture/script"
)

// Line is the summary of a run.
type Line struct {
	Seed     uint64         `json:"seed"`
	Messages bool           `json:"messages"`
	Policy   string         `json:"policy"`
	Script   string         `json:"script"`
	Faults   map[string]int `json:"faults"`
	Promised bool           `json:"promised"`
	Complete bool           `json:"complete"`
	Outcome  string         `json:"outcome"`
	Asked    int            `json:"asked"`
	Sent     int            `json:"sent"`
	Kept     int            `json:"kept"`
	Named    int            `json:"named"`
	Lost     int            `json:"lost"`
	Twice    int            `json:"twice"`
	Wrong    []string       `json:"wrong,omitempty"`
	Seconds  float64        `json:"seconds"`
}

// lineOf returns the line of a run.
func lineOf(s script.Script, n *judge.Notes, v judge.Verdict, took time.Duration) Line {
	l := Line{
		Seed: s.Seed, Messages: s.Messages, Policy: s.Policy, Script: s.String(), Faults: faultsOf(n),
		Promised: v.Promised, Complete: v.Complete,
		Asked: v.Asked, Sent: v.Sent, Kept: v.Kept, Named: v.Named, Lost: v.Lost, Twice: v.Twice, Wrong: v.Wrong,
		Seconds: took.Seconds(), Outcome: cmp.Or(v.Outcome, "none"),
	}
	return l
}

// faultsOf counts the faults that happened.
func faultsOf(n *judge.Notes) map[string]int {
	count := maps.Clone(n.Messages)
	if count == nil {
		count = map[string]int{}
	}
	for _, s := range n.Struck {
		count[string(s.Kind)]++
	}
	return count
}

// String returns the summary in one line.
func (l Line) String() string {
	words := "incomplete"
	if l.Complete {
		words = "complete"
	}
	return fmt.Sprintf("%s, %s (promised: %v) after %.1f s: %d asked, %d sent, %d kept, %d missing and named, %d lost, %d twice, %d wrong", l.Outcome, words,
		l.Promised, l.Seconds, l.Asked, l.Sent, l.Kept, l.Named, l.Lost, l.Twice, len(l.Wrong))
}

// append adds the line to a file. With an empty path it does nothing.
func (l Line) append(path string) error {
	if path == "" {
		return nil
	}
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.Write(append(data, '\n'))
	return err
}
