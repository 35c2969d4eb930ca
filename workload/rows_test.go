package workload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/dataset"
	"github.com/spate-load/spate/workload/rows"
)

// Workloads of files.
func jsonlOf(c *spatev1.FileContent) *spatev1.Workload {
	return &spatev1.Workload{Content: &spatev1.Workload_Jsonl{Jsonl: c}}
}

func sharegptOf(c *spatev1.FileContent) *spatev1.Workload {
	return &spatev1.Workload{Content: &spatev1.Workload_Sharegpt{Sharegpt: c}}
}

func mooncakeOf() *spatev1.Workload {
	return &spatev1.Workload{Content: &spatev1.Workload_Mooncake{Mooncake: &spatev1.TraceContent{}}}
}

func sonnetOf(c *spatev1.SonnetContent) *spatev1.Workload {
	return &spatev1.Workload{Content: &spatev1.Workload_Sonnet{Sonnet: c}}
}

// wordCount counts words in place of tokens.
func wordCount(text string) int { return len(strings.Fields(text)) }

// rowsOf builds and opens the rows of a source.
func rowsOf(t testing.TB, w *spatev1.Workload, source string, count func(string) int) *rows.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "rows"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = dataset.Build(t.Context(), f, strings.NewReader(source), w,
		dataset.Options{Count: count}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := rows.Open(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// fromFile returns the workload of a source. Its prompts must fit the form.
func fromFile(t testing.TB, w *spatev1.Workload, source string, c Config) Workload {
	t.Helper()
	c.Workload = w
	if c.Rows == nil {
		c.Rows = rowsOf(t, w, source, wordCount)
	}
	return newWorkload(t, c)
}

// mooncakeTrace is a trace that ships with the program.
const mooncakeTrace = "mooncake-1000.jsonl"

// fixture reads a file of the dataset package.
func fixture(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join("dataset", "testdata")
	if name == mooncakeTrace {
		dir = filepath.Join("..", "plans", "data")
	}
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOrder: shuffled takes each row once before it takes any row again, then in another order. file takes rows in the
// order of the file.
func TestOrder(t *testing.T) {
	var source strings.Builder
	const n = 50
	for i := range n {
		fmt.Fprintf(&source, `{"prompt": "p%d"}`+"\n", i)
	}
	round := func(w Workload, from uint64) (list []string) {
		for i := range uint64(n) {
			list = append(list, string(prompt(t, w, nil, from+i, Text)))
		}
		return list
	}
	w := fromFile(t, jsonlOf(&spatev1.FileContent{}), source.String(), Config{Seed: 3})
	first, second := round(w, 0), round(w, n)
	if slices.Equal(first, second) || slices.IsSorted(first) {
		t.Errorf("not shuffled, or the same twice: %v", first)
	}
	slices.Sort(first)
	slices.Sort(second)
	if !slices.Equal(first, second) || len(slices.Compact(first)) != n {
		t.Error("some row comes twice before another one comes once")
	}
	w = fromFile(t, jsonlOf(&spatev1.FileContent{Order: "file"}), source.String(), Config{Seed: 3})
	if got := round(w, n); got[0] != `"p0"` || got[n-1] != fmt.Sprintf(`"p%d"`, n-1) ||
		!slices.Equal(got, round(w, 0)) {
		t.Errorf("not in the order of the file: %v", got)
	}
}

func TestJSONLPrompts(t *testing.T) {
	w := jsonlOf(&spatev1.FileContent{Order: "file"})
	source := `{"prompt": "a \"b\"\n\u00e9", "osl": 3}` + "\n" + `{"prompt": "c"}`
	chat := fromFile(t, w, source, Config{Form: Messages, Template: 4})
	if got := string(prompt(t, chat, nil, 0, Messages)); got != `[{"role":"user","content":"a \"b\"\n\u00e9"}]` {
		t.Error(got)
	}
	if got := specOf(t, chat, 0, 0); got != (Spec{ISL: 7, OSL: 3, Turns: 1}) {
		t.Errorf("%+v", got)
	}
	if got := specOf(t, chat, 2, 0); got != (Spec{ISL: 7, OSL: 3, Turns: 1, Shared: 7}) {
		t.Errorf("a row that was sent before: %+v", got)
	}
	if got := string(prompt(t, fromFile(t, w, source, Config{}), []byte("kept"), 1, Text)); got != `kept"c"` {
		t.Error(got)
	}
	ids := fromFile(t, w, `{"token_ids": [5, 6, 70000]}`, Config{Form: TokenIDs})
	if got := string(prompt(t, ids, nil, 9, TokenIDs)); got != `[5,6,70000]` {
		t.Error(got)
	}
	messages := fromFile(t, w,
		`{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u", "name": "n"}]}`,
		Config{Form: Messages})
	if got := string(prompt(t, messages, nil, 0,
		Messages)); got != `[{"role":"system","content":"s"},{"role":"user","content":"u","name":"n"}]` {
		t.Error(got)
	}
	if got := specOf(t, messages, 0, 0); got.ISL != 0 || got.OSL != 256 {
		t.Errorf("%+v, but templates differ", got)
	}
}

// TestFormsRefused: New refuses rows that cannot be written in the target's form, and say what to set.
func TestFormsRefused(t *testing.T) {
	w := jsonlOf(&spatev1.FileContent{})
	for _, c := range []struct {
		source string
		form   Form
		says   string
	}{
		{`{"prompt": "a"}`, TokenIDs, "prompts: text"},
		{`{"token_ids": [1]}`, Text, "prompts: token_ids"},
		{`{"token_ids": [1]}`, Messages, "api: completions"},
		{`{"messages": [{"role": "user", "content": "a"}]}`, Text, "api: chat"},
		{`{"messages": [{"role": "user", "content": "a"}]}`, TokenIDs, "api: chat"},
	} {
		rows := rowsOf(t, w, c.source, nil)
		if _, err := New(Config{Workload: w, Rows: rows, Form: c.form}); err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s as %d: %v, want %q", c.source, c.form, err, c.says)
		}
	}
}

func TestRowsRefused(t *testing.T) {
	rows := rowsOf(t, jsonlOf(&spatev1.FileContent{}), `{"prompt": "a"}`, nil)
	for name, c := range map[string]Config{
		"no rows":    {Workload: mooncakeOf()},
		"other rows": {Workload: mooncakeOf(), Rows: rows},
		"empty word": {Workload: jsonlOf(&spatev1.FileContent{}), Rows: rows, Words: []string{""}},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	w := fromFile(t, jsonlOf(&spatev1.FileContent{}), `{"prompt": "a"}`, Config{})
	if _, err := w.Spec(0, 1); err == nil {
		t.Error("a second turn of a prompt")
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if _, err := w.Spec(0, 0); err == nil {
		t.Error("rows are still open")
	}
}

// talk is a conversation of two turns with a system prompt.
const talk = `{"conversations": [{"from": "system", "value": "S"}, {"from": "human", "value": "one two"}, {"from": "gpt", "value": "file says \"A\""},
 {"from": "human", "value": "three"}, {"from": "gpt", "value": "B"}]}`

func TestSessionsOfFiles(t *testing.T) {
	source := "[" + talk + "]"
	play := &spatev1.SessionPlay{ThinkTime: &spatev1.ThinkTime{Mean: durationpb.New(time.Second)}}
	server := fromFile(t, sharegptOf(&spatev1.FileContent{Sessions: play}), source, Config{Form: Messages})
	if got := specOf(t, server, 5, 0); got != (Spec{OSL: 3, Turns: 2}) {
		t.Errorf("%+v", got)
	}
	if got := specOf(t, server, 0, 1); got != (Spec{OSL: 1, Turns: 2, Previous: 1, Pause: time.Second, Shared: 5}) {
		t.Errorf("%+v", got)
	}
	got := string(promptOf(t, server, nil, Request{Turn: 1, Form: Messages, Answers: [][]byte{[]byte(`from \"it\"`)}}))
	want := `[{"role":"system","content":"S"},{"role":"user","content":"one two"},{"role":"assistant","content":"from \"it\""},{"role":"user","content":"three"}]`
	if got != want {
		t.Error(got)
	}
	if got := string(prompt(t, server, nil, 0,
		Messages)); got != `[{"role":"system","content":"S"},{"role":"user","content":"one two"}]` {
		t.Error(got)
	}
	for name, r := range map[string]Request{
		"no answers": {Turn: 1, Form: Messages}, "no such turn": {Turn: 2, Form: Messages, Answers: make([][]byte, 2)},
	} {
		if _, err := server.AppendPrompt(nil, r); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	planned := fromFile(t, sharegptOf(&spatev1.FileContent{Sessions: &spatev1.SessionPlay{History: "planned"}}),
		source, Config{})
	if got := string(promptOf(t, planned, nil, Request{Turn: 1})); got != `"S one two file says \"A\" three"` {
		t.Error(got)
	}
}

// TestTraceLengths: prompts of each form are as long as the row says, minus what the server adds. Only the same arrival
// has the same prompt.
func TestTraceLengths(t *testing.T) {
	w := &spatev1.Workload{Content: &spatev1.Workload_Azure{Azure: &spatev1.TraceContent{}}}
	source := "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00,40,3\n2024-05-10 00:00:01,2,4\n"
	for _, form := range []Form{Text, TokenIDs, Messages} {
		made := fromFile(t, w, source, Config{Form: form, Template: 5, Seed: 1})
		if got := specOf(t, made, 2, 0); got != (Spec{ISL: 40, OSL: 3, Turns: 1}) {
			t.Errorf("%+v", got)
		}
		first, again := prompt(t, made, nil, 0, form), prompt(t, made, nil, 2, form)
		if n := len(flat(parsePrompt(t, first, form))); n != 35 {
			t.Errorf("%d tokens", n)
		}
		if n := len(flat(parsePrompt(t, prompt(t, made, nil, 1, form), form))); n != 1 {
			t.Errorf("%d tokens", n)
		}
		if bytes.Equal(first, again) {
			t.Error("two arrivals of one row have the same text")
		}
	}
}

// TestMooncakePrefixes: prompts of all forms share exactly the first blocks that their rows share, and Shared is the
// longest such start among all earlier rows.
func TestMooncakePrefixes(t *testing.T) {
	source := strings.Join(strings.SplitAfter(fixture(t, mooncakeTrace), "\n")[:60], "")
	rows := rowsOf(t, mooncakeOf(), source, nil)
	for _, form := range []Form{Text, TokenIDs, Messages} {
		w := newWorkload(t, Config{Workload: mooncakeOf(), Rows: rows, Form: form, Seed: 9})
		var before [][]string
		for i := range rows.Len() {
			a := specOf(t, w, i, 0)
			tokens := flat(parsePrompt(t, prompt(t, w, nil, i, form), form))
			if len(tokens) != int(a.ISL) {
				t.Fatalf("form %d: row %d has %d tokens, want %d", form, i, len(tokens), a.ISL)
			}
			longest := 0
			for _, other := range before {
				longest = max(longest, alike(tokens, other))
			}
			// One more token may be equal by chance.
			if longest < int(a.Shared) || longest > int(a.Shared)+3 {
				t.Fatalf("form %d: row %d begins like another for %d tokens, Shared is %d", form, i, longest, a.Shared)
			}
			before = append(before, tokens)
		}
		again := flat(parsePrompt(t, prompt(t, w, nil, rows.Len(), form), form))
		if n := alike(again, before[0]); n > 3 {
			t.Errorf("form %d: a second time through the trace begins like the first for %d tokens", form, n)
		}
	}
}

// TestMooncakeBlocks: a block has the same text wherever it occurs, and different text with another seed.
func TestMooncakeBlocks(t *testing.T) {
	source := `{"timestamp":0,"input_length":1024,"output_length":1,"hash_ids":[7,8]}
{"timestamp":1,"input_length":700,"output_length":1,"hash_ids":[9,7]}`
	rows := rowsOf(t, mooncakeOf(), source, nil)
	w := newWorkload(t, Config{Workload: mooncakeOf(), Rows: rows, Form: TokenIDs, Seed: 1, Template: 10})
	first, second := flat(parsePrompt(t, prompt(t, w, nil, 0, TokenIDs), TokenIDs)),
		flat(parsePrompt(t, prompt(t, w, nil, 1, TokenIDs), TokenIDs))
	if len(first) != 1014 || len(second) != 690 || !slices.Equal(first[:178], second[512:]) {
		t.Errorf("%d and %d tokens, or block 7 differs", len(first), len(second))
	}
	other := newWorkload(t, Config{Workload: mooncakeOf(), Rows: rows, Form: TokenIDs, Seed: 2})
	if n := alike(first, flat(parsePrompt(t, prompt(t, other, nil, 0, TokenIDs), TokenIDs))); n > 3 {
		t.Errorf("two seeds begin alike for %d tokens", n)
	}
}

// TestMooncakeGroups: rows that start with the same block form a group, and the groups' numbers do not have a regular
// distance.
func TestMooncakeGroups(t *testing.T) {
	var source strings.Builder
	const rows, step, places = 400, 4, 4
	for i := range rows {
		fmt.Fprintf(&source, "{\"timestamp\":%d,\"input_length\":1024,\"output_length\":1,\"hash_ids\":[%d,%d]}\n", i,
			i/2*step, i/2*step+1+i%2)
	}
	w := newWorkload(t, Config{Workload: mooncakeOf(), Rows: rowsOf(t, mooncakeOf(), source.String(), nil),
		Form: TokenIDs, Seed: 1})
	counts := make([]int, places)
	for i := range uint64(rows) {
		group, grouped, err := Group(w, i)
		same, _, _ := Group(w, i^1)
		if err != nil || !grouped || group != same {
			t.Fatalf("row %d: group %d, %v, its twin's %d: %v", i, group, grouped, same, err)
		}
		counts[group%places]++
	}
	for _, n := range counts {
		if n < rows/places/2 {
			t.Errorf("%v of %d rows fall to %d places", counts, rows, places)
			break
		}
	}
}

// TestRowsCacheBusting: with cache busting all requests start differently, within a run and between two runs. The
// lengths of traces stay the same.
func TestRowsCacheBusting(t *testing.T) {
	play := &spatev1.SessionPlay{History: "planned"}
	for name, c := range map[string]struct {
		w      *spatev1.Workload
		source string
		form   Form
	}{
		"mooncake": {mooncakeOf(), fixture(t, mooncakeTrace), Text},
		"ids":      {jsonlOf(&spatev1.FileContent{}), `{"token_ids": [1, 2]}`, TokenIDs},
		"text":     {jsonlOf(&spatev1.FileContent{}), `{"prompt": "a b"}`, Text},
		"messages": {jsonlOf(&spatev1.FileContent{}),
			`{"messages": [{"role": "system", "content": "a b"}, {"role": "user", "content": "c"}]}`, Messages},
		"session": {sharegptOf(&spatev1.FileContent{Sessions: play}), "[" + talk + "]", Messages},
		"sonnet":  {sonnetOf(&spatev1.SonnetContent{Isl: 60, Osl: 5, Prefix: 20}), fixture(t, "poem.txt"), Messages},
	} {
		t.Run(name, func(t *testing.T) {
			rows := rowsOf(t, c.w, c.source, wordCount)
			plain := newWorkload(t, Config{Workload: c.w, Rows: rows, Form: c.form, Run: "r"})
			c.w.CacheBusting = "request"
			one := newWorkload(t, Config{Workload: c.w, Rows: rows, Form: c.form, Run: "r"})
			two := newWorkload(t, Config{Workload: c.w, Rows: rows, Form: c.form, Run: "s"})
			seen := map[string]bool{}
			for i := range uint64(40) {
				for _, w := range []Workload{one, two} {
					tokens := flat(parsePrompt(t, prompt(t, w, nil, i, c.form), c.form))
					seen[strings.Join(tokens[:5], " ")] = true
					words := wordCount(strings.Join(tokens, " ")) // lines are joined by line feeds
					if a := specOf(t, w, i, 0); a.Shared != 0 || a.ISL != 0 && int(a.ISL) != words {
						t.Fatalf("%+v for %d tokens", a, words)
					}
				}
			}
			if len(seen) != 80 {
				t.Errorf("%d of 80 requests begin differently", len(seen))
			}
			if name == "mooncake" || name == "sonnet" {
				return
			}
			with, without := flat(parsePrompt(t, prompt(t, one, nil, 0, c.form), c.form)),
				flat(parsePrompt(t, prompt(t, plain, nil, 0, c.form), c.form))
			if !slices.Equal(with[len(with)-len(without):], without) {
				t.Errorf("%v does not end with %v", with, without)
			}
		})
	}
}

// TestSonnetPrompts: prompts are whole lines, and share as many first lines as fit.
func TestSonnetPrompts(t *testing.T) {
	w := sonnetOf(&spatev1.SonnetContent{Isl: 60, Osl: 5, Prefix: 15})
	text := fixture(t, "poem.txt")
	lines := map[string]bool{}
	for line := range strings.Lines(text) {
		lines[strings.TrimSuffix(line, "\n")] = true
	}
	counted := fromFile(t, w, text, Config{Form: Messages, Template: 3})
	estimated := fromFile(t, w, text, Config{Form: Messages, Rows: rowsOf(t, w, text, nil)})
	seen := map[string]bool{}
	for i := range uint64(50) {
		var messages []struct{ Content string }
		body := prompt(t, counted, nil, i, Messages)
		if err := json.Unmarshal(body, &messages); err != nil {
			t.Fatal(err)
		}
		said := messages[0].Content
		seen[said] = true
		a, n := specOf(t, counted, i, 0), wordCount(said)
		if a.ISL != uint32(n)+3 || a.ISL > 60 || a.ISL < 60-8 || a.OSL != 5 {
			t.Fatalf("%+v for %d words", a, n)
		}
		if i > 0 && a.Shared != 13 {
			t.Fatalf("%+v", a)
		}
		if !strings.HasPrefix(said, "The morning comes with quiet feet,\nand lays its gold upon the street;\n") {
			t.Fatalf("%q", said)
		}
		for line := range strings.Lines(said) {
			if !lines[strings.TrimSuffix(line, "\n")] {
				t.Fatalf("%q is not a line of the text", line)
			}
		}
		if a := specOf(t, estimated, i, 0); a.ISL > 60 || a.ISL < 60-12 || a.Shared == 0 && i > 0 {
			t.Fatalf("%+v is asked for by estimates", a)
		}
	}
	if len(seen) < 45 {
		t.Errorf("only %d of 50 prompts differ", len(seen))
	}
	for _, c := range []*spatev1.SonnetContent{{Isl: 5, Osl: 5}, {Isl: 22, Osl: 5, Prefix: 20}} {
		if _, err := New(Config{Workload: sonnetOf(c), Rows: rowsOf(t, sonnetOf(c), text, wordCount)}); err == nil {
			t.Errorf("%v: accepted", c)
		}
	}
}

// TestLines: Lines returns the lines of a text unchanged.
func TestLines(t *testing.T) {
	text := "a \"quoted\" line\n\ttwo <é>\n\n three\n"
	got, err := Lines(rowsOf(t, sonnetOf(&spatev1.SonnetContent{Isl: 60, Osl: 5}), text, wordCount))
	if want := []Line{{"a \"quoted\" line\n", 3}, {"\ttwo <é>\n", 2}, {" three\n", 1}}; err != nil ||
		!slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestSonnetLengths: lengths that a server counted override those of the file, and the room that was computed from
// them.
func TestSonnetLengths(t *testing.T) {
	w := sonnetOf(&spatev1.SonnetContent{Isl: 60, Osl: 5, Prefix: 20})
	text := fixture(t, "poem.txt")
	lines := rowsOf(t, w, text, nil)
	tripled := make([]uint32, lines.Len())
	for i := range tripled {
		var row rows.Row
		if err := lines.Read(uint64(i), &row); err != nil {
			t.Fatal(err)
		}
		tripled[i] = 3 * uint32(wordCount(strings.ReplaceAll(string(row.Content), `\n`, " ")))
	}
	made := fromFile(t, w, text, Config{Form: Text, Rows: lines, LineTokens: tripled, Template: 4})
	for i := range uint64(50) {
		a, n := specOf(t, made, i, 0), wordCount(parsePrompt(t, prompt(t, made, nil, i, Text), Text)[0].text())
		if a.ISL != uint32(3*n)+4 || a.ISL > 60 || a.ISL < 60-3*9 {
			t.Fatalf("%+v for %d words of 3 tokens", a, n)
		}
	}
	hundreds := slices.Repeat([]uint32{100}, int(lines.Len()))
	long := fromFile(t, w, text, Config{Form: Text, Rows: lines, LineTokens: hundreds})
	if a := specOf(t, long, 7, 0); a.ISL != 100 {
		t.Errorf("%+v for one line of 100 tokens", a)
	}
	if _, err := New(Config{Workload: w, Rows: lines, LineTokens: []uint32{1}}); err == nil {
		t.Error("one length for all lines was taken")
	}
}

// TestRowsDoNotAllocate writes prompts into a buffer that is large enough.
func TestRowsDoNotAllocate(t *testing.T) {
	for name, w := range map[string]Workload{
		"mooncake": fromFile(t, mooncakeOf(), fixture(t, mooncakeTrace), Config{}),
		"sharegpt": fromFile(t, sharegptOf(&spatev1.FileContent{}), fixture(t, "sharegpt.json"), Config{}),
		"sonnet":   fromFile(t, sonnetOf(&spatev1.SonnetContent{Isl: 60, Osl: 5}), fixture(t, "poem.txt"), Config{}),
	} {
		var buffer []byte
		i := uint64(0)
		once := func() {
			buffer = prompt(t, w, buffer[:0], i%20, Text)
			specOf(t, w, i%20, 0)
			i++
		}
		for range 40 {
			once()
		}
		// A garbage collection may empty the pool meanwhile. With the race detector the pool drops a quarter of its
		// values at random.
		most := 0.5
		if raceDetector() {
			most = 4
		}
		if n := testing.AllocsPerRun(200, once); n > most {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// raceDetector reports whether the test was built with the race detector.
func raceDetector() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// TestTraceContent: rows of a trace that hold text or messages are sent with them, and every time alike.
func TestTraceContent(t *testing.T) {
	const source = `{"timestamp": 0, "text_input": "one two three", "output_length": 4}
{"timestamp": 5, "messages": [{"role": "user", "content": "hi"}], "output_length": 4}
`
	w := fromFile(t, mooncakeOf(), source, Config{Form: Messages})
	for i, want := range []string{`[{"role":"user","content":"one two three"}]`, `[{"role":"user","content":"hi"}]`} {
		for pass := range uint64(2) {
			index := uint64(i) + 2*pass
			got, err := w.AppendPrompt(nil, Request{Index: index, Form: Messages})
			if err != nil || string(got) != want {
				t.Errorf("request %d: %s (%v), want %s", index, got, err, want)
			}
			s, err := w.Spec(index, 0)
			isl := uint32(3 - 2*i)
			if s.ISL != isl || s.Shared != uint32(pass)*isl || s.OSL != 4 || err != nil {
				t.Errorf("request %d: %+v (%v)", index, s, err)
			}
		}
	}
	busting := mooncakeOf()
	busting.CacheBusting = "request"
	w = fromFile(t, busting, source, Config{Form: Messages, Run: "r"})
	got, err := w.AppendPrompt(nil, Request{Form: Messages})
	if err != nil || !strings.HasSuffix(string(got), ` one two three"}]`) {
		t.Errorf("%s (%v)", got, err)
	}
	if s, err := w.Spec(0, 0); s.ISL != 0 || s.Shared != 0 || err != nil {
		t.Errorf("%+v (%v): words in front of a text change its length", s, err)
	}
	if err := Writable(rowsOf(t, mooncakeOf(), source, nil), Text); err == nil {
		t.Error("messages can be sent to completions")
	}
}

// TestFields: a row's own fields are appended to its body, and only to its.
func TestFields(t *testing.T) {
	const source = `{"timestamp": 0, "messages": [{"role": "user", "content": "hi"}], "tools": [1], "tool_choice": "none"}
{"timestamp": 5, "messages": [{"role": "user", "content": "ho"}]}
`
	const want = `{"messages":[],"tools":[1],"tool_choice":"none"}`
	prompts := &spatev1.FileContent{Order: "file"}
	for name, plan := range map[string]*spatev1.Workload{
		"trace":   mooncakeOf(),
		"prompts": {Content: &spatev1.Workload_Jsonl{Jsonl: prompts}},
	} {
		w := fromFile(t, plan, source, Config{Form: Messages})
		for index := range uint64(4) {
			s, err := w.Spec(index, 0)
			if s.Fields != (index%2 == 0) || err != nil {
				t.Errorf("%s: request %d: %+v (%v)", name, index, s, err)
			}
			if !s.Fields {
				continue
			}
			fielder, _ := w.(Fielder)
			got, err := fielder.AppendFields([]byte(`{"messages":[]}`), index, 0)
			if err != nil || string(got) != want {
				t.Errorf("%s: request %d: %s (%v), want %s", name, index, got, err, want)
			}
		}
	}
}

// BenchmarkTrace makes the prompts of a trace in Mooncake's form.
func BenchmarkTrace(b *testing.B) {
	w := fromFile(b, mooncakeOf(), fixture(b, mooncakeTrace), Config{})
	buffer := prompt(b, w, nil, 0, Text)
	b.ReportAllocs()
	tokens := uint64(0)
	for i := uint64(0); b.Loop(); i++ {
		buffer = prompt(b, w, buffer[:0], i, Text)
		tokens += uint64(specOf(b, w, i, 0).ISL)
	}
	b.ReportMetric(float64(tokens)/float64(b.N), "tokens/op")
}

// TestTextsOfRows: a request has the texts of its row, or several rows, and a query in front of its documents. With
// cache busting each text starts differently.
func TestTextsOfRows(t *testing.T) {
	const several = `{"texts": ["a", "b c"]}
{"query": "q", "documents": ["d", "e", "f"]}
`
	const single = "{\"prompt\": \"one\"}\n{\"prompt\": \"two words\"}\n{\"prompt\": \"three\"}\n"
	for name, tt := range map[string]struct {
		content *spatev1.FileContent
		source  string
		want    []string
		specs   []Spec
		framed  uint32 // ISL of the first request, if a template adds 2 tokens to each text
	}{
		"a row's texts": {&spatev1.FileContent{Order: "file"}, several,
			[]string{`["a","b c"]`, `[["q"],"d","e","f"]`, `["a","b c"]`},
			[]Spec{{ISL: 3, OSL: 256, Texts: 2, Turns: 1}, {ISL: 3, OSL: 256, Texts: 3, Turns: 1},
				{ISL: 3, OSL: 256, Texts: 2, Turns: 1, Shared: 3}}, 7},
		"several rows": {&spatev1.FileContent{Order: "file", Texts: 2}, single,
			[]string{`["one","two words"]`, `["three","one"]`},
			[]Spec{{ISL: 3, OSL: 256, Texts: 2, Turns: 1}, {ISL: 2, OSL: 256, Texts: 2, Turns: 1, Shared: 1}}, 7},
	} {
		w := jsonlOf(tt.content)
		made := fromFile(t, w, tt.source, Config{Rows: rowsOf(t, w, tt.source, wordCount)})
		for i, want := range tt.want {
			if got := prompt(t, made, nil, uint64(i), Text); string(got) != want {
				t.Errorf("%s, request %d: %s, want %s", name, i, got, want)
			}
			if got := specOf(t, made, uint64(i), 0); got != tt.specs[i] {
				t.Errorf("%s, request %d: %+v, want %+v", name, i, got, tt.specs[i])
			}
		}
		made = fromFile(t, w, tt.source, Config{Rows: rowsOf(t, w, tt.source, wordCount), Template: 2})
		if got := specOf(t, made, 0, 0).ISL; got != tt.framed {
			t.Errorf("%s: %d tokens in a template, want %d", name, got, tt.framed)
		}
		w.CacheBusting = "request"
		made = fromFile(t, w, tt.source, Config{Rows: rowsOf(t, w, tt.source, wordCount), Run: "r"})
		starts := map[string]bool{}
		for i := range uint64(10) {
			var texts []any
			if err := json.Unmarshal(prompt(t, made, nil, i, Text), &texts); err != nil {
				t.Fatal(err)
			}
			for _, text := range texts {
				if text, is := text.(string); is {
					starts[strings.Join(strings.Fields(text)[:8], " ")] = true
				}
			}
		}
		if want := map[string]int{"a row's texts": 25, "several rows": 20}[name]; len(starts) != want {
			t.Errorf("%s: %d different starts, want %d", name, len(starts), want)
		}
	}
	both := jsonlOf(&spatev1.FileContent{Texts: 2})
	if _, err := New(Config{Workload: both, Rows: rowsOf(t, both, several, nil)}); err == nil {
		t.Error("rows of several texts are the texts of a request")
	}
}
