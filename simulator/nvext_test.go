package simulator

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The expected fields are what Dynamo 1.6.1 sent for extra_fields of worker_id and timing: its mocker behind its
// frontend, for a stream of four tokens.
func TestNVExt(t *testing.T) {
	c := exactSteps()
	c.Dialect.NVExt = true
	c.Model.PrefillTokensPerSecond = 1000
	c.Model.CacheBlocks, c.Model.CacheBlockTokens = 10, 1
	c.Model.Overhead = 2 * time.Millisecond
	const chat = `{"model":"m","messages":[{"content":"one two three four"}],"max_tokens":3`
	for name, shape := range map[string]struct {
		apart        bool
		body         string
		first, final []string // fields of nvext
	}{
		"not asked": {false, chat + `,"stream":true}`, nil, nil},
		"both": {true, chat + `,"stream":true,"nvext":{"extra_fields":["worker_id","timing"]}}`,
			[]string{"worker_id"}, []string{"timing", "worker_id"}},
		"timing": {true, chat + `,"stream":true,"nvext":{"extra_fields":["timing"]}}`, nil,
			[]string{"timing"}},
		"timing, with the last": {false, chat + `,"stream":true,"nvext":{"extra_fields":["timing"]}}`, nil,
			[]string{"timing"}},
		"timing, without stream": {false, chat + `,"nvext":{"extra_fields":["timing","routed_experts"]}}`,
			[]string{"timing"}, []string{"timing"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Frames.FinishFrame = shape.apart
			p := start(t, c)
			_, got := p.get(chatPath, "r", shape.body)
			p.stop()
			frames := strings.Split(strings.TrimSpace(strings.TrimSuffix(got, "data: [DONE]\n\n")), "\n\n")
			first, _ := extension(t, frames[0])
			final, timing := extension(t, frames[len(frames)-1])
			if diff := cmp.Diff([][]string{shape.first, shape.final}, [][]string{first, final}); diff != "" {
				t.Errorf("%s in %s", diff, got)
			}
			if len(shape.final) == 0 {
				return
			}
			r := p.Records()[0]
			want := map[string]float64{
				"prefill_wait_time_ms": 2, "prefill_time_ms": 4, "ttft_ms": 6, "total_time_ms": 8, "kv_hit_rate": 0,
			}
			sent := timing["request_received_ms"] / 1000
			if now := float64(time.Now().Unix()); sent < now-60 || sent > now+1 {
				t.Errorf("received at %v, now it is %v", sent, now)
			}
			delete(timing, "request_received_ms")
			if diff := cmp.Diff(want, timing); diff != "" {
				t.Errorf("%s; recorded %+v", diff, r)
			}
		})
	}
}

// extension returns the fields of a frame's nvext, and its times.
func extension(t *testing.T, frame string) ([]string, map[string]float64) {
	t.Helper()
	var v struct {
		NVExt map[string]map[string]float64 `json:"nvext"`
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(frame, "data: ")), &v); err != nil {
		t.Fatal(err, frame)
	}
	var fields []string
	for name := range v.NVExt {
		fields = append(fields, name)
	}
	slices.Sort(fields)
	return fields, v.NVExt["timing"]
}
