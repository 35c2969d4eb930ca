package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spate-load/spate/workload/draw"
)

// agentTraces turns what AIPerf replays of agents into rows in Mooncake's form. A line of Weka's, which InferenceX's
// AgentX has, is a session with its sub-agents, one of TraceLab's a round of a session, and one of Baseten's a prompt.
type agentTraces struct {
	itemReader
	block   uint64
	number  uint64              // of the latest item
	pending [][]byte            // its rows that are still to come
	chains  map[string][]uint64 // TraceLab: whole blocks of each session's latest prompt
	minted  uint64              // blocks that no other prompt has
}

// agentMembers are members of which each of these lines has one. Other lines are not read twice.
var agentMembers = [][]byte{[]byte(`"requests"`), []byte(`"newly_append_tokens"`), []byte(`"timestamp_start_unix_ms"`)}

// Next returns the next row.
func (a *agentTraces) Next() (item, error) {
	if len(a.pending) == 0 {
		it, err := a.itemReader.Next()
		marked := func(member []byte) bool { return bytes.Contains(it.Text, member) }
		if err != nil || it.TooLong || it.Fault != nil || !slices.ContainsFunc(agentMembers, marked) ||
			!json.Valid(it.Text) {
			return it, err
		}
		a.number = it.Number
		switch o := objectIn(bytes.TrimSpace(it.Text)); {
		case o["requests"] != nil && o["block_size"] != nil:
			it.Fault = a.weka(it.Text)
		case o["newly_append_tokens"] != nil:
			it.Fault = a.round(it.Text)
		case o["timestamp_start_unix_ms"] != nil:
			raw := func(names ...string) json.RawMessage { return o.take(names...) }
			a.add(map[string]any{"timestamp": raw("timestamp_start_unix_ms"), "text_input": raw("prompt"),
				"output_length": raw("output_tokens"), "session_id": raw("provided_session_id", "poor_man_session_id")})
		}
		if len(a.pending) == 0 {
			return it, nil
		}
	}
	it := item{Number: a.number, Text: a.pending[0]}
	a.pending = a.pending[1:]
	return it, nil
}

// add adds a row. A member that is null is as if it were absent.
func (a *agentTraces) add(row map[string]any) {
	text, _ := json.Marshal(row) // numbers and texts that were read from JSON
	a.pending = append(a.pending, text)
}

// wekaTrace is a trace of Weka's, one of its requests, or a sub-agent. Times are in seconds.
type wekaTrace struct {
	ID        string      `json:"id"`
	BlockSize uint64      `json:"block_size"`
	T         float64     `json:"t"`
	Type      string      `json:"type"`
	In        uint64      `json:"in"`
	Out       uint64      `json:"out"`
	HashIDs   []uint64    `json:"hash_ids"`
	APITime   float64     `json:"api_time"`
	Requests  []wekaTrace `json:"requests"`
}

// wekaEnd is the end of a request, by its name.
type wekaEnd struct {
	name string
	at   float64
}

// weka adds the rows of a trace.
func (a *agentTraces) weka(text []byte) error {
	var t wekaTrace
	if err := json.Unmarshal(text, &t); err != nil {
		return fmt.Errorf("is not a trace in Weka's form: %w", err)
	}
	if t.BlockSize != a.block {
		return fmt.Errorf("has a block_size of %d: set block_tokens: %d", t.BlockSize, t.BlockSize)
	}
	a.agent(t.ID, t.Requests, nil)
	return nil
}

// agent adds the requests of an agent, and returns the end of the last. Each waits for the one before it, or before its
// agent, and for the sub-agents that had ended. Times of a sub-agent may count from its start.
func (a *agentTraces) agent(session string, requests []wekaTrace, before []wekaEnd) (last wekaEnd) {
	var running []wekaEnd // sub-agents
	for i, r := range requests {
		name := fmt.Sprintf("%s#%d", session, i)
		if r.Type == "subagent" {
			for k := range r.Requests {
				if r.Requests[k].T < r.T {
					r.Requests[k].T += r.T
				}
			}
			running = append(running, a.agent(name, r.Requests, before))
			continue
		}
		waits, end, still := []string{}, 0.0, running[:0]
		for _, w := range append(before, running...) {
			switch {
			case w.at > r.T && !slices.Contains(before, w):
				still = append(still, w)
			case w.name != "":
				waits, end = append(waits, w.name), max(end, w.at)
			}
		}
		for k, id := range r.HashIDs { // the numbers of one trace mean nothing in another
			r.HashIDs[k] = draw.Mix(draw.Mix(a.number) ^ draw.Mix(id+1))
		}
		row := map[string]any{"session_id": session, "request_id": name, "wait_for": waits, "timestamp": math.Round(r.T * 1000),
			"input_length": r.In, "output_length": max(1, r.Out), "hash_ids": a.blocks(r.HashIDs, r.In)}
		if len(waits) > 0 {
			row["delay"] = math.Round(max(0, r.T-end) * 1000)
		}
		a.add(row)
		last = wekaEnd{name: name, at: r.T + max(0, r.APITime)}
		before, running = []wekaEnd{last}, still
	}
	return last
}

// blocks adds new blocks to those that a prompt of so many tokens shares with others.
func (a *agentTraces) blocks(ids []uint64, tokens uint64) []uint64 {
	for uint64(len(ids))*a.block < min(tokens, maxLength) { // a longer one is refused
		a.minted++
		ids = append(ids, draw.Mix(^a.minted))
	}
	return ids
}

// round adds a round of TraceLab. It shares with the round before it what the engine had of its prompt, and was sent at
// its last input.
func (a *agentTraces) round(text []byte) error {
	var r struct {
		Session   string `json:"session_id"`
		Input     uint64 `json:"input_tokens_total"`
		Prefix    uint64 `json:"prefix_tokens"`
		Output    uint64 `json:"output_tokens"`
		Reasoning uint64 `json:"reasoning_output_tokens"`
		Events    []struct {
			Type string          `json:"event_type"`
			At   json.RawMessage `json:"timestamp"`
		} `json:"timing_events"`
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("is not a round in TraceLab's form: %w", err)
	}
	var sent int64
	for i, e := range r.Events {
		at, err := parseInstant("timestamp", e.At)
		if err != nil {
			return err
		}
		if i == 0 || e.Type == "user_message" || e.Type == "tool_result" {
			sent = max(sent, at)
		}
	}
	if len(r.Events) == 0 {
		return errors.New("has no timing_events")
	}
	chain := a.chains[r.Session]
	kept := min(uint64(len(chain)), min(r.Prefix, r.Input)/a.block)
	ids := a.blocks(slices.Clone(chain[:kept]), r.Input)
	a.chains[r.Session] = ids[:min(uint64(len(ids)), r.Input/a.block)]
	a.add(map[string]any{"session_id": r.Session, "timestamp": sent / int64(time.Millisecond),
		"input_length": r.Input, "output_length": max(1, r.Output+r.Reasoning), "hash_ids": ids})
	return nil
}
