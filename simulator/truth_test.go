package simulator

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-load/spate/clock"
)

// The stamps in the frames, the record and the client's own clock agree, and no token is sent before the model has it.
func TestTruth(t *testing.T) {
	var log bytes.Buffer
	config := Default()
	config.Model = Model{PrefillTokensPerSecond: 1000, DecodeStep: 2 * time.Millisecond, MaxRunning: 8}
	config.Truth = Truth{Stamp: true, Keep: true, Tokens: true, Log: &log}
	p := start(t, config)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() { readStamped(p, fmt.Sprint("r", i)) })
	}
	group.Wait()
	p.stop()
	records := p.Records()
	if len(records) != 8 {
		t.Fatalf("%d records", len(records))
	}
	for _, r := range records {
		if r.OutputTokens != 10 || len(r.Tokens) != 10 || r.PromptTokens != 3 || r.FinishReason != finishLength ||
			r.Status != 200 {
			t.Errorf("recorded %+v", r)
		}
		for i, at := range r.Tokens {
			if due := r.Received.Add(3*time.Millisecond + time.Duration(i)*2*time.Millisecond); at < due {
				t.Errorf("%s: token %d sent %v before the model can have it", r.RequestID, i, due.Sub(at))
			}
		}
		if r.FirstToken != r.Tokens[0] || r.LastToken != r.Tokens[9] || r.Ended < r.LastToken {
			t.Errorf("recorded %+v", r)
		}
	}
	var logged []Record
	for line := range strings.Lines(log.String()) {
		var r Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		logged = append(logged, r)
	}
	if diff := cmp.Diff(records, logged); diff != "" {
		t.Error(diff)
	}
}

// readStamped sends a request of 3:10 and checks its stamps against the client's clock and the record.
func readStamped(p *peer, id string) {
	asked := clock.Now()
	resp, err := p.ask(p.t.Context(), 0, chatPath, id,
		`{"model":"m","messages":[{"content":"a b c"}],"max_tokens":10,"stream":true,"stream_options":{"include_usage":true}}`)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer resp.Body.Close()
	var stamps []clock.Instant
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		_, stamp, found := strings.Cut(lines.Text(), `"sent_ns":`)
		if !found {
			continue
		}
		at, err := strconv.ParseInt(strings.TrimSuffix(stamp, "}"), 10, 64)
		if err != nil {
			p.t.Error(err)
		}
		if now := clock.Now(); clock.Instant(at) > now || clock.Instant(at) < asked {
			p.t.Errorf("%s: stamped %d, asked at %d and read at %d", id, at, asked, now)
		}
		stamps = append(stamps, clock.Instant(at))
	}
	for _, r := range p.Records() {
		if r.RequestID == id {
			// The role frame before and the usage frame after are not tokens.
			if diff := cmp.Diff(stamps[1:len(stamps)-1], r.Tokens); diff != "" {
				p.t.Errorf("%s: frames and record differ: %s", id, diff)
			}
			return
		}
	}
	p.t.Errorf("%s: the response has ended and there is no record", id)
}

type brokenLog struct{ writes int }

func (b *brokenLog) Write([]byte) (int, error) {
	b.writes++
	return 0, errors.New("disk full")
}

func TestBrokenLogFailsNoRequest(t *testing.T) {
	log := &brokenLog{}
	config := fast()
	config.Truth = Truth{Log: log}
	p := start(t, config)
	for range 3 {
		if status, _ := p.get(completionsPath, "", fourTokens); status != 200 {
			t.Errorf("status %d", status)
		}
	}
	p.stop()
	if log.writes != 3 {
		t.Errorf("%d writes for 3 requests", log.writes)
	}
}

func TestRecordOmitsMissingInstants(t *testing.T) {
	config := fast()
	var log bytes.Buffer
	config.Truth.Log = &log
	p := start(t, config)
	p.get(completionsPath, "bad", `{`)
	p.stop()
	want := `{"request_id":"bad","endpoint":0,"replica":0,"status":400,"stream":false,"prompt_tokens":0,"output_tokens":0,"arrived_ns":`
	if got := log.String(); !strings.HasPrefix(got, want) || strings.Contains(got, "token_ns") {
		t.Errorf("logged %s", got)
	}
}
