package dataset

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
	"github.com/spate-load/spate/workload/rows"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Workloads of each form.
func mooncakeOf(c *spatev1.TraceContent) *spatev1.Workload {
	return &spatev1.Workload{Name: "m", Content: &spatev1.Workload_Mooncake{Mooncake: c}}
}

func bailianOf(c *spatev1.TraceContent) *spatev1.Workload {
	return &spatev1.Workload{Name: "q", Content: &spatev1.Workload_Bailian{Bailian: c}}
}

func burstgptOf(c *spatev1.TraceContent) *spatev1.Workload {
	return &spatev1.Workload{Name: "b", Content: &spatev1.Workload_Burstgpt{Burstgpt: c}}
}

func azureOf(c *spatev1.TraceContent) *spatev1.Workload {
	return &spatev1.Workload{Name: "a", Content: &spatev1.Workload_Azure{Azure: c}}
}

func sharegptOf(c *spatev1.FileContent) *spatev1.Workload {
	return &spatev1.Workload{Name: "s", Content: &spatev1.Workload_Sharegpt{Sharegpt: c}}
}

func jsonlOf(c *spatev1.FileContent) *spatev1.Workload {
	return &spatev1.Workload{Name: "j", Content: &spatev1.Workload_Jsonl{Jsonl: c}}
}

func sonnetOf(c *spatev1.SonnetContent) *spatev1.Workload {
	return &spatev1.Workload{Name: "p", Content: &spatev1.Workload_Sonnet{Sonnet: c}}
}

// all returns workloads of all forms with no field set.
func all() map[string]*spatev1.Workload {
	every := 1.0
	trace, file := &spatev1.TraceContent{MaxSkipped: &every}, &spatev1.FileContent{MaxSkipped: &every}
	return map[string]*spatev1.Workload{
		"otel": otelOf(trace), "openai_log": logOf(trace), "mooncake": mooncakeOf(trace), "burstgpt": burstgptOf(trace), "azure": azureOf(trace),
		"bailian":  bailianOf(trace),
		"sharegpt": sharegptOf(file), "jsonl": jsonlOf(file),
		"sonnet":   sonnetOf(&spatev1.SonnetContent{Isl: 100, Osl: 10}),
		"sessions": sharegptOf(&spatev1.FileContent{MaxSkipped: &every, Sessions: &spatev1.SessionPlay{}}),
	}
}

// countWords counts words in place of tokens.
func countWords(text string) int { return len(strings.Fields(text)) }

// built builds a valid source and opens its rows.
func built(t rapid.TB, w *spatev1.Workload, source string, o Options) (*spatev1.Dataset, *Skipped, *rows.File) {
	t.Helper()
	var out bytes.Buffer
	d, skipped, err := Build(context.Background(), &out, strings.NewReader(source), w, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := rows.New(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if r.Len() != d.GetRows() || uint64(out.Len()) != d.GetSize() || !r.BuiltFor(w) {
		t.Fatalf("%v of a file of %d bytes and %d rows", d, out.Len(), r.Len())
	}
	return d, skipped, r
}

// refused builds an invalid source and returns the error.
func refused(t *testing.T, w *spatev1.Workload, source string) string {
	t.Helper()
	_, skipped, err := Build(t.Context(), &bytes.Buffer{}, strings.NewReader(source), w, Options{Name: "in.txt"})
	if err == nil {
		t.Fatalf("accepted %.200q, skipped %+v", source, skipped)
	}
	if !strings.Contains(err.Error(), "in.txt") {
		t.Errorf("%v does not name the file", err)
	}
	return err.Error()
}

// rowsOf reads all rows.
func rowsOf(t rapid.TB, r *rows.File) []rows.Row {
	t.Helper()
	list := make([]rows.Row, r.Len())
	for i := range list {
		if err := r.Read(uint64(i), &list[i]); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// writeMooncake writes a trace in Mooncake's form that shares prefixes as chats do. Four in ten requests start a
// conversation behind one of a few common system prompts. The others continue one of the latest conversations and
// repeat its whole prompt and answer. Ids are assigned in order, as in the published traces. The same arguments give
// the same trace.
func writeMooncake(out *bytes.Buffer, rows int, perSecond float64, longest uint32) {
	const block, systems, open = 512, 4, 64
	s := draw.New(20260101, "mooncake")
	next, ms := uint64(systems*2), 0.0
	type talk struct {
		ids    []uint64
		tokens uint32
	}
	var talks []talk
	for i := range uint64(rows) {
		at := s.Sub(i)
		ms += 1000 / perSecond * float64(at.Below(0, 2000)) / 1000
		var now talk
		fresh := len(talks) == 0 || at.Below(1, 10) < 4
		if fresh {
			system := at.Below(2, systems) * 2
			now = talk{ids: []uint64{system, system + 1}, tokens: 2 * block}
		} else {
			past := talks[at.Below(3, uint64(len(talks)))]
			whole := past.tokens / block
			now = talk{ids: append([]uint64(nil), past.ids[:whole]...), tokens: past.tokens}
		}
		now.tokens += 50 + uint32(at.Below(4, 2500))
		osl := 1 + uint32(at.Below(5, 400))
		for uint32(len(now.ids)) < (now.tokens+block-1)/block {
			now.ids = append(now.ids, next)
			next++
		}
		fmt.Fprintf(out, `{"timestamp": %d, "input_length": %d, "output_length": %d, "hash_ids": %s}`+"\n",
			int64(ms), now.tokens, osl, strings.ReplaceAll(fmt.Sprint(now.ids), " ", ", "))
		if now.tokens+osl > longest {
			continue
		}
		if len(talks) < open {
			talks = append(talks, now)
		} else {
			talks[at.Below(6, open)] = now
		}
	}
}

// writeAgents writes a trace of agents at work, in Dynamo's agentic form, with blocks of 64 tokens. Each task plans,
// then calls tools one after another, then has two to four sub-agents work at the same time, and reports. Tools take
// 0.1 to 1.5 s. Each prompt has the whole history of its agent, and all agents of a kind begin with one system prompt.
func writeAgents(out *bytes.Buffer, tasks int) {
	const block, system, subSystem = 64, 16, 10 // blocks of the system prompts
	s := draw.New(20260102, "agents")
	next, ms := uint64(system+subSystem), 0.0
	for task := range uint64(tasks) {
		at := s.Sub(task)
		number := uint64(0)
		below := func(n uint64) uint64 { number++; return at.Below(number, n) }
		grow := func(ids []uint64, tokens uint64) []uint64 {
			for range tokens / block {
				ids = append(ids, next)
				next++
			}
			return ids
		}
		write := func(request, session string, waits []string, ids []uint64, osl uint64) {
			fmt.Fprintf(out, `{"request_id": "%d-%s", "session_id": "%d-%s", `, task, request, task, session)
			if waits == nil {
				fmt.Fprintf(out, `"timestamp": %.0f, `, ms)
			} else {
				fmt.Fprintf(out, `"wait_for": ["%d-%s"], "tool_wait_ms": %d, `, task,
					strings.Join(waits, fmt.Sprintf(`", "%d-`, task)), 100+below(1400))
			}
			fmt.Fprintf(out, `"input_length": %d, "output_length": %d, "hash_ids": %s}`+"\n", len(ids)*block, osl,
				strings.ReplaceAll(fmt.Sprint(ids), " ", ", "))
		}
		from := func(first, n uint64) (ids []uint64) {
			for i := range n {
				ids = append(ids, first+i)
			}
			return ids
		}
		ms += float64(below(600))
		ids, last := grow(from(0, system), 256+below(1024)), []string(nil)
		for turn := range 2 + below(3) {
			name := fmt.Sprint("main", turn)
			write(name, "main", last, ids, 30+below(90))
			ids, last = grow(ids, 192+below(512)), []string{name}
		}
		var done []string
		for branch := range 2 + below(3) {
			own, waits := grow(from(system, subSystem), 128+below(512)), last
			for turn := range 1 + below(3) {
				name := fmt.Sprintf("sub%d.%d", branch, turn)
				write(name, fmt.Sprint("sub", branch), waits, own, 20+below(80))
				own, waits = grow(own, 192+below(768)), []string{name}
			}
			done = append(done, waits...)
		}
		write("report", "main", done, grow(ids, 256+below(1024)), 80+below(160))
	}
}

// Traces that ship with the program.
const (
	mooncakeTrace = "mooncake-1000.jsonl"
	agentsTrace   = "agents-60.jsonl"
)

// sourceFile returns the path of a source file of the tests.
func sourceFile(name string) string {
	if name == mooncakeTrace || name == agentsTrace {
		return filepath.Join("..", "..", "plans", "data", name)
	}
	return filepath.Join("testdata", name)
}

// TestFixtures: the shipped traces are what their generators write. SPATE_WRITE_FIXTURES=1 writes them.
func TestFixtures(t *testing.T) {
	var mooncake, agents bytes.Buffer
	writeMooncake(&mooncake, 1000, 8, 20_000)
	writeAgents(&agents, 60)
	for name, want := range map[string][]byte{mooncakeTrace: mooncake.Bytes(), agentsTrace: agents.Bytes()} {
		path := sourceFile(name)
		if os.Getenv("SPATE_WRITE_FIXTURES") != "" {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(have, want) {
			t.Errorf("%s is not what its generator writes: run this test with SPATE_WRITE_FIXTURES=1", path)
		}
	}
}
