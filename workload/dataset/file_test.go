package dataset

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/rows"
)

func fileOf(c *spatev1.FileContent) *spatev1.Workload {
	return &spatev1.Workload{Name: "f", Content: &spatev1.Workload_File{File: c}}
}

// textRow is a row with a prompt, whose tokens are its words.
func textRow(prompt string, isl, osl uint32) rows.Row {
	return rows.Row{Kind: rows.Text, ISL: isl, OSL: osl, Content: []byte(prompt)}
}

// inputsJSON is a file of AIPerf's, whose payloads have what came before them.
const inputsJSON = `{
  "data": [
    {"session_id": "s0", "payloads": [
      {"messages": [{"role": "user", "content": "Hello"}], "model": "m", "max_tokens": 13},
      {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "b c"},
        {"role": "user", "content": "d"}], "max_tokens": 7}]}
  ]
}
`

// TestFile: content or name tell the form of a file, and members that of a row.
func TestFile(t *testing.T) {
	hello := `[{"role":"user","content":"Hello"}]`
	for name, c := range map[string]struct {
		plan   *spatev1.FileContent
		source string
		want   []rows.Row
		unused string
	}{
		"alpaca.json": {&spatev1.FileContent{}, "", []rows.Row{
			textRow(`Name three \"primary\" colours.`, 4, 4), textRow(`Classify the word.\n\nTiger`, 4, 1),
		}, "text (1)"},
		"specbench.jsonl": {&spatev1.FileContent{Osl: 9}, "", []rows.Row{
			textRow("Write a poem.", 3, 9), textRow("What is 2 + 2?", 5, 9),
		}, "category (2), question_id (2), reference (1)"},
		"questions.csv": {&spatev1.FileContent{Columns: &spatev1.Columns{Prompt: "question", Answer: "answer", Osl: "n"}}, "",
			[]rows.Row{
				textRow("Why, and how?", 3, 7), textRow(`Two\nlines with \"quotes\"`, 4, 3), textRow("42", 1, 5),
			}, "id (3)"},
		"prompts.CSV.gz": {&spatev1.FileContent{}, "prompt,osl\none two,5\nthree,\n",
			[]rows.Row{textRow("one two", 2, 5), textRow("three", 1, 256)}, ""},
		"prompts.txt": {&spatev1.FileContent{Osl: 4}, "{\"a\" prompt}\n\nand \\ more\r\n", nil, ""},
		"lines": {&spatev1.FileContent{Format: "text", Osl: 4}, "{\"a\" prompt}\n\nand \\ more\r\n",
			[]rows.Row{textRow(`{\"a\" prompt}`, 2, 4), textRow(`and \\ more`, 3, 4)}, ""},
		"mixed.json": {&spatev1.FileContent{}, `[{"messages": [{"role": "user", "content": "Hello"}], "osl": 3},
			{"conversations": [{"from": "human", "value": "a b"}, {"from": "gpt", "value": "c d"}]}]`,
			[]rows.Row{
				{Kind: rows.Messages, ISL: 1, OSL: 3, Content: []byte(hello), Insert: strings.Index(hello, "Hello")},
				textRow("a b", 2, 2),
			}, ""},
		"single_turn.jsonl": {&spatev1.FileContent{}, `{"text": "a b", "output_length": 4}`,
			[]rows.Row{textRow("a b", 2, 4)}, ""},
		"arena.jsonl": {&spatev1.FileContent{}, `{"turns": [{"content": "a b"}], "category": "c"}`,
			[]rows.Row{textRow("a b", 2, 256)}, "category (1)"},
		"inputs.json": {&spatev1.FileContent{}, inputsJSON, []rows.Row{
			{Kind: rows.Messages, ISL: 1, OSL: 13, Content: []byte(hello), Insert: strings.Index(hello, "Hello")},
		}, "model (1), payloads behind the first (1), session_id (1)"},
		"chat.jsonl": {&spatev1.FileContent{Columns: &spatev1.Columns{Messages: "conversation"}},
			`{"conversation": [{"role": "user", "content": "Hello"}], "prompt": "x"}`,
			[]rows.Row{{Kind: rows.Messages, ISL: 1, OSL: 256, Content: []byte(hello),
				Insert: strings.Index(hello, "Hello")}}, "prompt (1)"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.source == "" {
				c.source = file(t, name)
			}
			if c.want == nil {
				text := refused(t, fileOf(c.plan), c.source)
				if !strings.Contains(text, "line 1 is not JSON") {
					t.Error(text)
				}
				return
			}
			_, skipped, r := built(t, fileOf(c.plan), c.source, Options{Name: name, Count: countWords})
			same(t, rowsOf(t, r), c.want)
			if got := skipped.Unused.String(); got != c.unused {
				t.Errorf("unused: %s", got)
			}
		})
	}
}

// TestFileSessions: with sessions, all turns are played.
func TestFileSessions(t *testing.T) {
	w := fileOf(&spatev1.FileContent{Osl: 9, Sessions: &spatev1.SessionPlay{}})
	_, _, r := built(t, w, file(t, "specbench.jsonl"), Options{Count: countWords})
	same(t, rowsOf(t, r), []rows.Row{
		{Kind: rows.Session, ISL: 3, OSL: 9, TurnCount: 2, Turns: []rows.Turn{
			{ISL: 3, OSL: 9, User: []byte("Write a poem.")}, {ISL: 3, OSL: 9, User: []byte("Shorten it, please.")}}},
		{Kind: rows.Session, ISL: 5, OSL: 9, TurnCount: 1, Turns: []rows.Turn{
			{ISL: 5, OSL: 9, User: []byte("What is 2 + 2?")}}},
	})
	_, _, r = built(t, w, inputsJSON, Options{})
	if got := rowsOf(t, r); len(got) != 1 || got[0].TurnCount != 2 || string(got[0].Turns[1].User) != "d" {
		t.Errorf("%v", got)
	}
	w.GetFile().Columns = &spatev1.Columns{Messages: "m", Osl: "n"}
	_, _, r = built(t, w, `{"m": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "n": 3}`,
		Options{})
	same(t, rowsOf(t, r), []rows.Row{{Kind: rows.Session, OSL: 3, TurnCount: 1,
		Turns: []rows.Turn{{OSL: 3, User: []byte("a"), Answer: []byte("b")}}}})
}

// TestFileFaults: a faulty row is named by its line, and a file of no known form says what to give.
func TestFileFaults(t *testing.T) {
	every := 1.0
	table := &spatev1.FileContent{MaxSkipped: &every, Columns: &spatev1.Columns{Prompt: "q", Osl: "n"}}
	for source, want := range map[string]string{
		"q,n\n\"two\nlines\",3\nx\n":                       "line 4 has 1 fields, but there are 2 columns",
		"q,n\na \"quote,3\nx,2\n":                          "line 2 is not CSV: bare \"",
		"q,n\nx,many\ny,2\n":                               `line 2 n is "many", not a number`,
		"q,n\nx,0\ny,2\n":                                  "line 2 n is 0: it must be at least 1",
		"q,n\n\xff,3\ny,2\n":                               "line 2 is not UTF-8",
		"q,n\n,3\ny,2\n":                                   "line 2 has an empty q",
		`{"p": 1}` + "\n" + `{"q": "x"}`:                   "line 1 has no q",
		`{"q": ["x"]}` + "\n" + `{"q": "x"}`:               "line 1 q is an array, not a string",
		`{"q": "x", "n": "3"}` + "\n" + `{"q": "x"}`:       `line 1 n is "3", not a number`,
		"\n" + `{"q": "x"` + "\n" + `{"q": "x", "n": 1}\n`: "line 2 is not JSON",
	} {
		_, skipped, err := Build(t.Context(), &strings.Builder{}, strings.NewReader(source), fileOf(table),
			Options{Name: "in.csv"})
		if !strings.Contains(skipped.String(), want) {
			t.Errorf("%q: %v (%v), want %s", source, skipped, err, want)
		}
	}
	for row, want := range map[string]string{
		`{"instruction": ""}`:           "line 1 has an empty instruction",
		`{"instruction": 5}`:            "line 1 instruction is a number",
		`{"turns": []}`:                 "line 1 has no turns",
		`{"turns": "x"}`:                "line 1 turns is a string",
		`{"turns": [" "]}`:              "line 1 turns has an empty question",
		`{"question": "x"}`:             "line 1 has no prompt, messages, token_ids, texts, conversations, instruction or turns: give columns",
		`{"conversations": "x"}`:        "line 1 conversations is a string",
		`{"prompt": "x", "osl": "ten"}`: "line 1 osl is",
	} {
		if text := refused(t, fileOf(&spatev1.FileContent{}), row); !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %s", row, text, want)
		}
	}
	for _, source := range []string{"prompt\nx\n", ""} {
		_, _, err := Build(t.Context(), &strings.Builder{}, strings.NewReader(source), fileOf(&spatev1.FileContent{}),
			Options{Name: "prompts"})
		if err == nil || !strings.Contains(err.Error(), "give format: json, csv, parquet or text") {
			t.Errorf("%q: %v", source, err)
		}
	}
	if text := refused(t, fileOf(&spatev1.FileContent{Format: "csv"}), "a,b,a\n1,2,3\n"); !strings.Contains(text,
		`names the column "a" twice`) {
		t.Error(text)
	}
}

func FuzzFile(f *testing.F) {
	every := 1.0
	columns := &spatev1.Columns{Prompt: "question", Answer: "answer", Osl: "n"}
	fuzzed(f, []*spatev1.Workload{
		fileOf(&spatev1.FileContent{MaxSkipped: &every}),
		fileOf(&spatev1.FileContent{MaxSkipped: &every, Format: "csv", Columns: columns}),
		fileOf(&spatev1.FileContent{MaxSkipped: &every, Format: "text"}),
		fileOf(&spatev1.FileContent{MaxSkipped: &every, Sessions: &spatev1.SessionPlay{}}),
	}, []string{"alpaca.json", "specbench.jsonl", "questions.csv", "sharegpt.json", "prompts.jsonl",
		"huggingface/main/train-00000-of-00002.parquet"},
		"a,\"b\n\"\"\",n\n1,2\n", "\"", "question,n\n1,1e5\n")
}

// sized is a file in memory.
type sized struct{ *bytes.Reader }

func (sized) Close() error { return nil }

// inputsOf returns the files of a split of the fixture, which pyarrow wrote.
func inputsOf(t *testing.T, split string) []Input {
	t.Helper()
	root := filepath.Join("testdata", "huggingface")
	names, err := HuggingFaceFiles(os.DirFS(root), &spatev1.FileContent{Subset: "main", Split: split})
	if err != nil {
		t.Fatal(err)
	}
	inputs := make([]Input, len(names))
	for i, name := range names {
		inputs[i] = Input{Name: name, Open: func() (io.ReadCloser, error) {
			text, err := os.ReadFile(filepath.Join(root, name))
			return sized{bytes.NewReader(text)}, err
		}}
	}
	return inputs
}

// buildInputs builds several files.
func buildInputs(t *testing.T, w *spatev1.Workload, inputs []Input) (*Skipped, []rows.Row, error) {
	t.Helper()
	src, err := inputs[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	_, skipped, err := Build(t.Context(), &out, src, w,
		Options{Name: inputs[0].Name, More: inputs[1:], Count: countWords})
	if err != nil {
		return skipped, nil, err
	}
	file, err := rows.New(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return skipped, rowsOf(t, file), nil
}

// TestParquet: the rows of all files of a split, and a faulty one with its file.
func TestParquet(t *testing.T) {
	share := 0.5
	w := fileOf(&spatev1.FileContent{MaxSkipped: &share, Columns: &spatev1.Columns{Prompt: "question", Answer: "answer"}})
	skipped, got, err := buildInputs(t, w, inputsOf(t, "train"))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, []rows.Row{textRow("Why, and how?", 3, 2), textRow(`Two\nlines <b>`, 3, 1), textRow("Third?", 1, 3)})
	if text := skipped.String(); text != "main/train-00001-of-00002.parquet: row 2 has no question" {
		t.Error(text)
	}
	w = fileOf(&spatev1.FileContent{Columns: &spatev1.Columns{Messages: "messages", Osl: "n"}})
	if _, got, err = buildInputs(t, w, inputsOf(t, "test")); err != nil || len(got) != 1 || got[0].OSL != 7 ||
		string(got[0].Content) != `[{"content":"Hello","role":"user"}]` {
		t.Errorf("%+v (%v)", got, err)
	}
}

// TestDamagedParquet: a file that is cut or changed gives an error or faulty rows, never a panic, and takes little
// memory.
func TestDamagedParquet(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join("testdata", "huggingface", "main", "train-00000-of-00002.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	w := fileOf(&spatev1.FileContent{Columns: &spatev1.Columns{Prompt: "question"}})
	build := func(text []byte) error {
		_, _, err := Build(t.Context(), io.Discard, sized{bytes.NewReader(text)}, w, Options{Name: "in"})
		return err
	}
	for n := 4; n < len(whole); n += 7 {
		if build(whole[:n]) == nil {
			t.Errorf("%d of %d bytes are accepted", n, len(whole))
		}
	}
	var before, after runtime.MemStats
	for i := range whole {
		changed := bytes.Clone(whole)
		changed[i] ^= 0xff
		runtime.ReadMemStats(&before)
		_ = build(changed) // a change may leave the file valid
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 100<<20 {
			t.Errorf("byte %d changed: %d MiB are allocated", i, took>>20)
		}
	}
	for _, src := range []io.Reader{strings.NewReader("PAR1"), io.MultiReader(bytes.NewReader(whole))} {
		if _, _, err := Build(t.Context(), io.Discard, src, w, Options{Name: "in"}); err == nil {
			t.Error("accepted")
		}
	}
	_, _, err = Build(t.Context(), io.Discard, sized{bytes.NewReader(whole)}, w, Options{Name: "in", MaxBytes: 60})
	if err == nil || !strings.Contains(err.Error(), "more than 60 bytes of text") {
		t.Errorf("too much text: %v", err)
	}
}

// TestRecordedAnswers: what an assistant says last is not part of the request, and its length is the output asked for.
// Members that servers refuse are left out and counted.
func TestRecordedAnswers(t *testing.T) {
	const ask = `{"role":"user","content":"a b"}`
	for source, want := range map[string]struct {
		sent   string
		osl    uint32
		unused string
	}{
		`{"messages": [` + ask + `, {"role": "assistant", "content": "one two three"}]}`: {
			ask, 3, "recorded answer (its length is the output asked for) (1)"},
		`{"messages": [` + ask + `, {"role": "assistant", "content": "one"}, {"role": "assistant", "content": "x y"}], "osl": 9}`: {
			ask, 9, "recorded answer (its length is the output asked for) (1)"},
		`{"messages": [{"role": "assistant", "content": "hi"}, {"role": "user", "content": "a b", "language": "en"}]}`: {
			`{"role":"assistant","content":"hi"},` + ask, 256, "language of messages (1)"},
		`{"messages": [` + ask + `, {"role": "assistant", "content": "The", "prefix": true}]}`: {
			ask + `,{"role":"assistant","content":"The","prefix":true}`, 256, ""},
		`{"messages": [{"from": "human", "value": "a b"}, {"from": "gpt", "value": "c d"}]}`: {
			ask, 2, "recorded answer (its length is the output asked for) (1)"},
		`{"custom_id": "r-0", "url": "/v1/chat/completions", "body": {"messages": [` + ask + `], "max_tokens": 11}}`: {
			ask, 11, ""},
	} {
		_, skipped, r := built(t, fileOf(&spatev1.FileContent{}), source, Options{Count: countWords})
		got := rowsOf(t, r)
		if len(got) != 1 || string(got[0].Content) != "["+want.sent+"]" || got[0].OSL != want.osl {
			t.Errorf("%s\n  sends %s, asks for %d tokens, want %s, %d", source, got[0].Content, got[0].OSL, want.sent, want.osl)
		}
		if text := skipped.Unused.String(); text != want.unused {
			t.Errorf("%s\n  unused: %s, want %s", source, text, want.unused)
		}
	}
	text := refused(t, fileOf(&spatev1.FileContent{}), `{"messages": [{"role": "assistant", "content": "hi"}]}`)
	if !strings.Contains(text, "has no message of a user") {
		t.Error(text)
	}
	_, _, r := built(t, fileOf(&spatev1.FileContent{}),
		`{"turns": [{"text": "a b", "output_length": 7}, {"text": "c", "delay": 50}]}`+"\n\n \n", Options{Count: countWords})
	same(t, rowsOf(t, r), []rows.Row{textRow("a b", 2, 7)})
}
