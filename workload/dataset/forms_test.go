package dataset

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/rows"
)

// file reads a fixture.
func file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(sourceFile(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// same compares the contents of rows.
func same(t *testing.T, got, want []rows.Row) {
	t.Helper()
	for i := range want {
		want[i].TurnCount = max(1, want[i].TurnCount)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(rows.Row{}), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestTraces(t *testing.T) {
	for name, c := range map[string]struct {
		w       *spatev1.Workload
		rows    []rows.Row
		leftOut uint64
		span    time.Duration
	}{
		"burstgpt.csv": {burstgptOf(&spatev1.TraceContent{}), []rows.Row{
			{ISL: 472, OSL: 18}, {At: 40 * time.Second, ISL: 1087, OSL: 230},
			{At: 113 * time.Second, ISL: 417, OSL: 276},
			{At: 1124500 * time.Millisecond, ISL: 1305, OSL: 477},
		}, 1, 1124500 * time.Millisecond},
		"burstgpt-sessions.csv": {burstgptOf(&spatev1.TraceContent{}), []rows.Row{{ISL: 100, OSL: 20}, {ISL: 30, OSL: 5}}, 0,
			0},
		"azure-2023.csv": {azureOf(&spatev1.TraceContent{}), []rows.Row{
			{ISL: 374, OSL: 44}, {At: 4314579 * time.Microsecond, ISL: 396, OSL: 109},
			{At: 4541877 * time.Microsecond, ISL: 879, OSL: 55},
		}, 0, 4541877 * time.Microsecond},
		"azure-2024.csv": {azureOf(&spatev1.TraceContent{}), []rows.Row{
			{ISL: 2162, OSL: 5}, {At: 7405 * time.Microsecond, ISL: 2399, OSL: 6},
			{At: 990070 * time.Microsecond, ISL: 76, OSL: 15},
		}, 0, 990070 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			d, skipped, r := built(t, c.w, file(t, name), Options{})
			same(t, rowsOf(t, r), c.rows)
			if skipped.Excluded != c.leftOut || skipped.Unusable != 0 || d.GetSkipped() != c.leftOut {
				t.Errorf("skipped %+v", skipped)
			}
			if d.GetSpan() == nil || d.GetSpan().AsDuration() != c.span {
				t.Errorf("span %v, want %v", d.GetSpan(), c.span)
			}
			for i, row := range c.rows {
				if at, ok := r.At(uint64(i)); !ok || at != row.At {
					t.Errorf("row %d at %v (%v)", i, at, ok)
				}
			}
			if _, ok := r.At(r.Len()); ok {
				t.Error("there is a time behind the last row")
			}
		})
	}
}

func TestMooncake(t *testing.T) {
	source := `{"timestamp": 27482, "input_length": 1100, "output_length": 52, "hash_ids": [46, 47, 48], "other": {"a": [1]}}
{"hash_ids": [46, 47, 99], "output_length": 1, "input_length": 1025.0, "timestamp": 27482.5}

{"timestamp": 30000, "input_length": 600, "output_length": 0, "hash_ids": [1, 2]}
{"timestamp": 30000, "input_length": 1536, "output_length": 9, "hash_ids": [47, 46, 18446744073709551615]}
{"timestamp": 30001, "input_length": 1100, "output_length": 9, "hash_ids": [46, 47, 48]}`
	share := 0.5
	d, skipped, r := built(t, mooncakeOf(&spatev1.TraceContent{MaxSkipped: &share}), source, Options{})
	same(t, rowsOf(t, r), []rows.Row{
		{ISL: 1100, OSL: 52, Kind: rows.Blocks, Blocks: []uint64{46, 47, 48}},
		{At: 500 * time.Microsecond, ISL: 1025, OSL: 1, Shared: 1024, Kind: rows.Blocks, Blocks: []uint64{46, 47, 99}},
		{At: 2518 * time.Millisecond, ISL: 1536, OSL: 9, Kind: rows.Blocks, Blocks: []uint64{47, 46, 1<<64 - 1}},
		{At: 2519 * time.Millisecond, ISL: 1100, OSL: 9, Shared: 1100, Kind: rows.Blocks, Blocks: []uint64{46, 47, 48}},
	})
	if d.GetLongest() != 1545 || r.BlockTokens() != 512 || skipped.Unusable != 0 || skipped.Excluded != 2 {
		t.Errorf("%v, %d tokens a block, skipped %+v", d, r.BlockTokens(), skipped)
	}
	_, _, r = built(t, mooncakeOf(&spatev1.TraceContent{BlockTokens: 16}),
		`{"timestamp":0,"input_length":17,"output_length":1,"hash_ids":[1,2]}`, Options{})
	if r.BlockTokens() != 16 {
		t.Errorf("%d tokens a block", r.BlockTokens())
	}
}

// TestSeveralTexts: rows of several texts keep them, and the query beside them.
func TestSeveralTexts(t *testing.T) {
	_, skipped, r := built(t, jsonlOf(&spatev1.FileContent{}), `{"texts": ["a \"b\"", "c"], "id": 1}
{"query": "why", "documents": ["d e", "f", "g"]}
{"prompt": "p", "texts": ["t"]}`, Options{Count: countWords})
	same(t, rowsOf(t, r), []rows.Row{
		{ISL: 3, OSL: 256, Kind: rows.Texts, TurnCount: 2, Turns: []rows.Turn{{ISL: 2, User: []byte(`a \"b\"`)}, {ISL: 1, User: []byte("c")}}},
		{ISL: 4, OSL: 256, Kind: rows.Documents, TurnCount: 3, Content: []byte("why"),
			Turns: []rows.Turn{{ISL: 2, User: []byte("d e")}, {ISL: 1, User: []byte("f")}, {ISL: 1, User: []byte("g")}}},
		{ISL: 1, OSL: 256, Kind: rows.Text, Content: []byte("p")},
	})
	if unused := skipped.Unused.String(); unused != "id (1), texts beside prompt (1)" {
		t.Errorf("not used: %s", unused)
	}
}

// TestIgnoredBesideTexts: a row that has texts does not use its query and its documents.
func TestIgnoredBesideTexts(t *testing.T) {
	_, skipped, r := built(t, jsonlOf(&spatev1.FileContent{}), `{"texts": ["a"], "query": "q", "documents": ["d"]}`,
		Options{Count: countWords})
	same(t, rowsOf(t, r), []rows.Row{
		{ISL: 1, OSL: 256, Kind: rows.Texts, TurnCount: 1, Turns: []rows.Turn{{ISL: 1, User: []byte("a")}}},
	})
	if unused := skipped.Unused.String(); unused != "documents beside texts (1), query beside texts (1)" {
		t.Errorf("not used: %s", unused)
	}
}

// TestLongestOfSeveralTexts: each text is a prompt of its own. A document is read with its query, in words that differ
// by model.
func TestLongestOfSeveralTexts(t *testing.T) {
	const texts, documents = `{"texts": ["a b c", "d", "e f"], "max_tokens": 10}`, `{"query": "q", "documents": ["d", "e"]}`
	for source, want := range map[string]uint32{
		texts: 13, texts + "\n" + `{"prompt": "a b c d"}`: 260, documents: 0, texts + "\n" + documents: 0,
	} {
		d, _, _ := built(t, jsonlOf(&spatev1.FileContent{}), source, Options{Count: countWords})
		if d.GetLongest() != want {
			t.Errorf("%s: longest %d, want %d", source, d.GetLongest(), want)
		}
	}
	if d, _, _ := built(t, jsonlOf(&spatev1.FileContent{}), texts, Options{}); d.GetLongest() != 0 {
		t.Errorf("longest %d without a tokenizer", d.GetLongest())
	}
}

// TestMooncakeTrace: rows of AIPerf's and Dynamo's mooncake_trace have blocks, a length alone, text or messages.
func TestMooncakeTrace(t *testing.T) {
	_, skipped, r := built(t, mooncakeOf(&spatev1.TraceContent{}), file(t, "mooncake-trace.jsonl"), Options{Count: countWords})
	brief := `[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello"}]`
	same(t, rowsOf(t, r), []rows.Row{
		{ISL: 600, OSL: 52, Kind: rows.Blocks, Blocks: []uint64{0, 1}},
		{At: 105500 * time.Microsecond, ISL: 300, OSL: 26},
		{At: 200 * time.Millisecond, ISL: 3, OSL: 40, Kind: rows.Text, Content: []byte(`Tell a \"story\".`)},
		{At: 274 * time.Millisecond, OSL: 256, Kind: rows.Messages, Content: []byte(brief),
			Insert: strings.Index(brief, "Be")},
	})
	if unused := skipped.Unused.String(); unused != "session_id (1)" {
		t.Errorf("unused: %s", unused)
	}
}

// TestContentIsSorted: rows with content that are out of order keep their own content.
func TestContentIsSorted(t *testing.T) {
	_, _, r := built(t, mooncakeOf(&spatev1.TraceContent{}), `{"timestamp": 9, "text_input": "later"}
{"timestamp": 1, "text_input": "first"}
`, Options{})
	if all := rowsOf(t, r); string(all[0].Content) != "first" || string(all[1].Content) != "later" {
		t.Errorf("rows %q, %q", all[0].Content, all[1].Content)
	}
}

// TestBailian: times are in seconds, and an id stands for 16 tokens.
func TestBailian(t *testing.T) {
	d, _, r := built(t, bailianOf(&spatev1.TraceContent{}), file(t, "bailian.jsonl"), Options{})
	same(t, rowsOf(t, r), []rows.Row{
		{ISL: 40, OSL: 132, Kind: rows.Blocks, Blocks: []uint64{1089, 1090, 1091}},
		{At: 386 * time.Millisecond, ISL: 16, OSL: 8, Kind: rows.Blocks, Blocks: []uint64{7}},
		{At: 14136 * time.Millisecond, ISL: 50, OSL: 9, Shared: 32, Kind: rows.Blocks,
			Blocks: []uint64{1089, 1090, 6326, 6327}},
	})
	if r.BlockTokens() != 16 || d.GetSpan().AsDuration() != 14136*time.Millisecond {
		t.Errorf("%d tokens a block, span %v", r.BlockTokens(), d.GetSpan())
	}
}

// TestUnusable: each of these rows follows a good one, and is counted and named.
func TestUnusable(t *testing.T) {
	const good = `{"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": [1]}`
	head := "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
	forms := all()
	type bad map[string]string // row: its reason
	for form, c := range map[string]struct {
		before string
		rows   bad
	}{
		"mooncake": {good + "\n", bad{
			`{"timestamp": 1, "input_length": -5, "output_length": 5, "hash_ids": [1]}`:    "input_length is -5: it must not be negative",
			`{"timestamp": 1, "input_length": 5, "output_length": 1e99, "hash_ids": [1]}`:  "at most 16777216",
			`{"timestamp": 1, "input_length": 5, "output_length": 1e999, "hash_ids": [1]}`: "not a number",
			`{"timestamp": 1, "input_length": 5.5, "output_length": 5, "hash_ids": [1]}`:   "must be a whole number",
			`{"timestamp": "x", "input_length": 5, "output_length": 5, "hash_ids": [1]}`:   "timestamp is",
			`{"timestamp": NaN, "input_length": 5, "output_length": 5, "hash_ids": [1]}`:   "is not JSON",
			`{"timestamp": 1e300, "input_length": 5, "output_length": 5, "hash_ids": [1]}`: "must be between -9.2e+12 and 9.2e+12",
			`{"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": [1, 2]}`:  "has 2 hash_ids, but an input_length of 5 makes 1 blocks",
			`{"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": [-1]}`:    "hash_ids has -1",
			`{"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": {}}`:      "hash_ids is an object",
			`{"timestamp": 1, "hash_ids": [1], "output_length": 5}`:                        "has hash_ids without input_length",
			`{"timestamp": 1, "output_length": 5}`:                                         "has no input_length, text_input or messages",
			`{"timestamp": 1, "input_length": 5, "text_input": "x"}`:                       "has more than one of",
			`{"timestamp": 1, "text_input": ""}`:                                           "has an empty text_input",
			`{"timestamp": 1, "messages": [5]}`:                                            "messages has a number in place of an object",
			`{"input_length": 5, "output_length": 5, "hash_ids": [1]}`:                     "has no timestamp",
			`[1]`:                                 "is an array, not an object",
			"{\"timestamp\": 1, \"a\": \"\xff\"}": "is not UTF-8",
		}},
		"burstgpt": {head + "1,m,5,5,10,c\n", bad{
			"1,m,-5,5,0,c":  "must not be negative",
			"1,m,NaN,5,0,c": "not a number",
			"1,m,5":         "has 3 fields, but there are 6 columns",
			",m,5,5,0,c":    "has no Timestamp",
			`1,"m,5,5,0,c`:  "quote",
			"1,m,0x5,5,0,c": "not a number",
			"inf,m,5,5,0,c": "not a number",
			"1,m,5,1e9,0,c": "at most",
		}},
		"azure": {"TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00,1,1\n", bad{
			"2024-05-10,1,1":          "not a time like",
			"2024-13-10 00:00:00,1,1": "not a time like",
			"9999-01-01 00:00:00,1,1": "the year must be from 1700 to 2250",
			"12.5,1,1":                "not a time like",
		}},
		"jsonl": {`{"prompt": "x"}` + "\n", bad{
			`{"prompt": 5}`:                       "prompt is a number, not a string",
			`{"prompt": ""}`:                      "empty prompt",
			`{"text": "x"}`:                       "has no prompt, messages, token_ids, texts, or query and documents",
			`{"prompt": "x", "osl": 0}`:           "osl is 0",
			`{"prompt": "x", "max_tokens": -1}`:   "negative",
			`{"prompt": "x", "max_tokens": "5"}`:  "not a number",
			`{"prompt": []}`:                      "no token ids",
			`{"token_ids": [1, "a"]}`:             "not a whole number",
			`{"token_ids": [4294967296]}`:         "not a whole number",
			`{"token_ids": "1"}`:                  "token_ids is a string",
			`{"messages": []}`:                    "has no messages",
			`{"messages": [{"role": "user"}]}`:    "has no text in its first message",
			`{"messages": ["hi"]}`:                "a string in place of an object",
			`{"messages": {}}`:                    "messages is an object",
			`{"prompt": "x"`:                      "is not JSON",
			`{"prompt": "x"} {"prompt": "y"}`:     "is not JSON",
			`"x"`:                                 "is a string, not an object",
			`{"texts": "x"}`:                      "texts is a string, not an array",
			`{"texts": []}`:                       "has no texts",
			`{"texts": ["x", ""]}`:                "has an empty element in texts",
			`{"texts": ["x", 5]}`:                 "an element of texts is a number, not a string",
			`{"query": "x", "documents": [5]}`:    "an element of documents is a number, not a string",
			`{"query": "", "documents": ["x"]}`:   "has an empty query",
			`{"query": "x"}`:                      "texts, or query and documents",
			`{"query": "x", "documents": null}`:   "texts, or query and documents",
			`{"query": null, "documents": ["x"]}`: "texts, or query and documents",
		}},
		"sharegpt": {`{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}` + "\n", bad{
			`{"id": 1}`:              "has no conversations",
			`{"conversations": 5}`:   "conversations is a number",
			`{"conversations": [5]}`: "a number in place of an object",
			`{"conversations": [{"from": "x", "value": "y"}]}`:   "neither a user nor an assistant",
			`{"conversations": [{"from": "human"}]}`:             "without role and content, or from and value",
			`{"conversations": [{"from": "human", "value": 5}]}`: "value is a number",
		}},
	} {
		for row, reason := range c.rows {
			_, skipped, _ := built(t, forms[form], c.before+row+"\n", Options{})
			number := uint64(strings.Count(c.before, "\n") + 1)
			if skipped.Unusable != 1 || skipped.First[0].Number != number ||
				!strings.Contains(skipped.First[0].Reason, reason) {
				t.Errorf("%s: %q: %+v, want line %d: %s", form, row, skipped, number, reason)
			}
			if !strings.Contains(skipped.String(), fmt.Sprintf("line %d %s", number, skipped.First[0].Reason)) {
				t.Errorf("%v", skipped)
			}
		}
	}
}

func TestShareGPT(t *testing.T) {
	source := file(t, "sharegpt.json")
	_, skipped, r := built(t, sharegptOf(&spatev1.FileContent{}), source, Options{})
	same(t, rowsOf(t, r), []rows.Row{
		{Kind: rows.Text, OSL: 13, Content: []byte(`What is a \"load test\"? \u00e9`)},
		{Kind: rows.Text, OSL: 2, Content: []byte(`Thanks, go on`)},
		{Kind: rows.Text, OSL: 2, Content: []byte(`Hi\n\nthere`)},
	})
	if skipped.Excluded != 2 || skipped.Unusable != 0 || skipped.Unit != "element" {
		t.Errorf("skipped %+v", skipped)
	}
	d, _, r := built(t, sharegptOf(&spatev1.FileContent{}), source, Options{Count: countWords})
	if got := rowsOf(t, r)[0]; got.ISL != 6 || got.OSL != 11 || d.GetLongest() != 17 {
		t.Errorf("counted: %d:%d, longest %d", got.ISL, got.OSL, d.GetLongest())
	}
	_, _, r = built(t, sharegptOf(&spatev1.FileContent{Osl: 99}), source, Options{})
	if got := rowsOf(t, r)[0]; got.OSL != 99 {
		t.Errorf("osl %d", got.OSL)
	}
}

func TestShareGPTSessions(t *testing.T) {
	w := sharegptOf(&spatev1.FileContent{Sessions: &spatev1.SessionPlay{}})
	source := file(t, "sharegpt.json")
	d, _, r := built(t, w, source, Options{Count: countWords})
	same(t, rowsOf(t, r), []rows.Row{
		{Kind: rows.Session, ISL: 6, OSL: 11, TurnCount: 2, Turns: []rows.Turn{
			{ISL: 6, OSL: 11, User: []byte(`What is a \"load test\"? \u00e9`),
				Answer: []byte(`It asks a server\nfor more than one thing at once.`)},
			{ISL: 2, OSL: 6, User: []byte("And why?"), Answer: []byte("To see what it can take.")},
		}},
		{Kind: rows.Session, ISL: 3, OSL: 1, TurnCount: 1,
			Turns: []rows.Turn{{ISL: 3, OSL: 1, User: []byte("Thanks, go on"), Answer: []byte("More.")}}},
		{Kind: rows.Session, OSL: 1, TurnCount: 1, Content: []byte("Be brief."),
			Turns: []rows.Turn{{ISL: 2, OSL: 1, User: []byte(`Hi\n\nthere`), Answer: []byte("Hello")}}},
	})
	if d.GetLongest() != 0 {
		t.Errorf("longest %d, but a system prompt was not counted", d.GetLongest())
	}
	lines := `{"messages": [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"}, {"role": "user", "content": "d"}], "osl": 4}`
	_, _, r = built(t, jsonlOf(&spatev1.FileContent{Sessions: &spatev1.SessionPlay{}}), lines, Options{})
	same(t, rowsOf(t, r), []rows.Row{{Kind: rows.Session, OSL: 4, TurnCount: 2, Turns: []rows.Turn{
		{OSL: 4, User: []byte("a b"), Answer: []byte("c")}, {OSL: 4, User: []byte("d")},
	}}})
}

func TestJSONL(t *testing.T) {
	_, _, r := built(t, jsonlOf(&spatev1.FileContent{Osl: 50}), file(t, "prompts.jsonl"), Options{Count: countWords})
	got := rowsOf(t, r)
	kind := `[{"role":"system","content":"Be kind."},{"role":"user","content":"Hello"}]`
	image := `[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,"}},{"type":"text","text":"What is this?"}]}]`
	alone := `[{"role":"user","content":"alone"}]`
	same(t, got, []rows.Row{
		{Kind: rows.Text, ISL: 3, OSL: 7, Content: []byte("One two three")},
		{Kind: rows.Messages, OSL: 12, Content: []byte(kind), Insert: strings.Index(kind, "Be")},
		{Kind: rows.Messages, OSL: 50, Content: []byte(image), Insert: strings.Index(image, "What")},
		{Kind: rows.TokenIDs, ISL: 3, OSL: 3, IDs: []uint32{1, 2, 30000}},
		{Kind: rows.TokenIDs, ISL: 2, OSL: 50, IDs: []uint32{5, 6}},
		{Kind: rows.Messages, ISL: 1, OSL: 50, Content: []byte(alone), Insert: strings.Index(alone, "alone")},
	})
	_, _, r = built(t, jsonlOf(&spatev1.FileContent{}), `[{"prompt": "x"},]`, Options{})
	same(t, rowsOf(t, r), []rows.Row{{Kind: rows.Text, OSL: 256, Content: []byte("x")}})
}

// TestFields: tools and forms of answers of a row are sent beside its messages, not beside anything else.
func TestFields(t *testing.T) {
	const tools = `"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "auto"`
	const kept = `"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto"`
	hello := `[{"role":"user","content":"Hello"}]`
	messages := rows.Row{Kind: rows.MessagesWithFields, OSL: 256, Content: []byte(hello),
		Insert: strings.Index(hello, "Hello"), Fields: []byte(kept)}
	row := func(members string) string { return `{"timestamp": 1, ` + members + `, ` + tools + "}" }
	sessions := &spatev1.FileContent{Sessions: &spatev1.SessionPlay{}}
	columns := &spatev1.FileContent{Columns: &spatev1.Columns{Messages: "chat"}}
	for _, c := range []struct {
		w              *spatev1.Workload
		source, unused string
		sent           bool
	}{
		{jsonlOf(&spatev1.FileContent{}), row(`"messages": ` + hello), "timestamp (1)", true},
		{jsonlOf(&spatev1.FileContent{}), row(`"prompt": "x"`), "timestamp (1), tool_choice (1), tools (1)", false},
		{jsonlOf(sessions), row(`"messages": ` + hello), "timestamp (1), tool_choice (1), tools (1)", false},
		{fileOf(columns), row(`"chat": ` + hello), "timestamp (1)", true},
		{mooncakeOf(&spatev1.TraceContent{}), row(`"messages": ` + hello), "", true},
		{mooncakeOf(&spatev1.TraceContent{}), row(`"text_input": "x"`), "tool_choice (1), tools (1)", false},
		{mooncakeOf(&spatev1.TraceContent{}), row(`"input_length": 5`), "tool_choice (1), tools (1)", false},
	} {
		_, skipped, r := built(t, c.w, c.source, Options{Count: countWords})
		if got := skipped.Unused.String(); got != c.unused {
			t.Errorf("%s: unused: %s, want %s", c.source, got, c.unused)
		}
		if r.HasField("tools") != c.sent || r.HasField("response_format") {
			t.Errorf("%s: fields %v", c.source, r.HasField("tools"))
		}
		if c.sent {
			same(t, rowsOf(t, r), []rows.Row{messages})
		}
	}
	_, _, r := built(t, jsonlOf(&spatev1.FileContent{}), `{"messages": `+hello+`, "tools": null}`, Options{})
	if r.Has(rows.MessagesWithFields) {
		t.Error("a null is sent")
	}
}

func TestSonnet(t *testing.T) {
	w := sonnetOf(&spatev1.SonnetContent{Isl: 100, Osl: 10})
	d, skipped, r := built(t, w, file(t, "poem.txt"), Options{Count: countWords})
	rows := rowsOf(t, r)
	if len(rows) != 6 || string(rows[1].Content) != `and lays its gold upon the street;\n` || rows[1].ISL != 7 {
		t.Errorf("%d rows, second %+v", len(rows), rows[1])
	}
	if d.GetLongest() != 110 || skipped.Excluded != 1 {
		t.Errorf("%v, skipped %+v", d, skipped)
	}
	if _, _, r = built(t, w, file(t, "poem.txt"), Options{}); rowsOf(t, r)[0].ISL != 0 {
		t.Error("lengths are known without a tokenizer")
	}
	if text := refused(t, w, strings.Repeat(strings.Repeat("a line of it ", 1000)+"\n", 1500)); !strings.Contains(text,
		"16 MiB") {
		t.Error(text)
	}
}

func TestMaxSkipped(t *testing.T) {
	source := strings.Repeat(`{"prompt": "x"}`+"\n", 98) + "broken\n{}\n"
	w := jsonlOf(&spatev1.FileContent{MaxSkipped: new(0.02)})
	if d, _, _ := built(t, w, source, Options{}); d.GetRows() != 98 || d.GetSkipped() != 2 {
		t.Errorf("%v", d)
	}
	for _, share := range []*float64{nil, proto.Float64(0), new(0.0199)} {
		text := refused(t, jsonlOf(&spatev1.FileContent{MaxSkipped: share}), source)
		for _, part := range []string{"2 of 100 rows", "line 99 is not JSON", "line 100 has no prompt", "max_skipped"} {
			if !strings.Contains(text, part) {
				t.Errorf("%q does not say %q", text, part)
			}
		}
	}
	if text := refused(t, w, "a\nb\n{}\nc\n"); !strings.Contains(text, "line 1 is not JSON; line 3 has no prompt") ||
		strings.Count(text, "line") != 2 {
		t.Errorf("not each reason once: %q", text)
	}
}

// TestExcludedRowsAreNotFaults: max_skipped does not limit failed requests of a trace, but at least one other row is
// needed.
func TestExcludedRowsAreNotFaults(t *testing.T) {
	head := "Timestamp,Request tokens,Response tokens\n"
	failed := strings.Repeat("1,5,0\n", 50)
	if d, _, _ := built(t, burstgptOf(&spatev1.TraceContent{}), head+failed+"2,5,5\n",
		Options{}); d.GetSkipped() != 50 || d.GetRows() != 1 {
		t.Errorf("%v", d)
	}
	if text := refused(t, burstgptOf(&spatev1.TraceContent{}), head+failed); !strings.Contains(text,
		"none of its 50 rows") {
		t.Error(text)
	}
}

func TestWrongColumns(t *testing.T) {
	text := refused(t, azureOf(&spatev1.TraceContent{}), "Timestamp,Model,Request tokens\n1,m,5\n")
	for _, part := range []string{"TIMESTAMP, ContextTokens, GeneratedTokens", "Timestamp,Model,Request tokens"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not say %q", text, part)
		}
	}
}

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
			"max_tokens beside osl (1), model (1), prompt beside messages (1), tool (1), tools (1)",
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
