package dataset

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// TestUnusedMembersAreReported: members that a form does not use are named, with the number of rows that have them.
func TestUnusedMembersAreReported(t *testing.T) {
	file, trace := &spatev1.FileContent{Osl: 2}, &spatev1.TraceContent{}
	for name, c := range map[string]struct {
		content *spatev1.Workload
		text    string
		want    string
	}{
		"jsonl": {
			&spatev1.Workload{Content: &spatev1.Workload_Jsonl{Jsonl: file}},
			`{"prompt": "a", "tools": [], "model": "m", "max_tokens": 3, "osl": 4}` + "\n" +
				`{"messages": [{"role": "user", "content": "b"}], "tool": [1], "prompt": "c"}` + "\n" +
				`{"prompt": "d", "output_tokens_count": 5}`,
			"max_tokens beside another output length (1), model (1), prompt beside messages or token_ids (1), tool (1), tools (1)",
		},
		"all used": {&spatev1.Workload{Content: &spatev1.Workload_Jsonl{Jsonl: file}},
			`{"prompt": "a", "output_tokens_count": 5}`, ""},
		"sharegpt": {
			&spatev1.Workload{Content: &spatev1.Workload_Sharegpt{Sharegpt: file}},
			`[{"id": "1", "conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "a", "weight": 1}, {"from": "gpt", "value": "b"}]}]`,
			"id (1), system message that only sessions use (1), weight (1)",
		},
		"azure": {
			&spatev1.Workload{Content: &spatev1.Workload_Azure{Azure: trace}},
			"TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00,1,10,2\n2024-05-10 00:00:01,0,10,2\n",
			"NumImages (2)",
		},
		"mooncake": {
			&spatev1.Workload{Content: &spatev1.Workload_Mooncake{Mooncake: trace}},
			`{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [1], "session_id": "x"}`,
			"session_id (1)",
		},
	} {
		var dst bytes.Buffer
		_, skipped, err := Build(t.Context(), &dst, strings.NewReader(c.text), c.content, Options{})
		if err != nil || skipped.Unused.String() != c.want {
			t.Errorf("%s: %v, unused %q, want %q", name, err, skipped.Unused.String(), c.want)
		}
	}
}

// TestUnusedIsBounded: a file with a new name in each row does not fill the memory.
func TestUnusedIsBounded(t *testing.T) {
	var u Unused
	for i := range 1000 {
		u.note(fmt.Sprint("name", i))
	}
	if len(u.counts) != maxUnused || !strings.HasSuffix(u.String(), ", others (968)") {
		t.Errorf("%d names: %s", len(u.counts), u.String())
	}
}
