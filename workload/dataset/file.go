package dataset

import (
	"bytes"
	"errors"
	"slices"
	"unicode/utf8"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/rows"
)

// anyFile makes the builder read a file of any form.
func (b *builder) anyFile(w *spatev1.Workload, o Options) {
	c := content.File(w)
	f := &anyFile{reader: newReader(b, c, o), format: c.GetFormat(), columns: c.GetColumns()}
	b.openItems = func(s *itemSource) (itemReader, error) { return f.open(s, b.maxBytes) }
	b.rows(func(text []byte, row *rows.Row) error { return f.parse(text, row) })
}

// anyFile reads a file whose form its content, its name or the plan tells. Rows of JSON and CSV are objects; their
// members tell the form of each.
type anyFile struct {
	*reader

	format  string
	columns *spatev1.Columns
	parse   func(text []byte, row *rows.Row) error
}

// open finds out the form of the file, and returns its items. maxBytes is the most text that a Parquet file may have.
func (f *anyFile) open(s *itemSource, maxBytes uint64) (itemReader, error) {
	format := f.format
	if format == "" {
		format = detect(s)
	}
	switch f.parse = objects(f.object); format {
	case "json":
		return newElements(s.Reader)
	case "csv":
		return newRecords(s.Reader, append(slices.Clone(outputNames), f.columns.GetOsl()))
	case "parquet":
		return newParquetRows(s.Raw, maxBytes)
	case "text":
		f.parse = f.line
		return newLines(s.Reader), nil
	}
	return nil, errors.New("neither its content nor its name tells its form: give format: json, csv, parquet or text")
}

// detect returns the format of a file, or "".
func detect(s *itemSource) string {
	head, _ := s.Peek(512) // an error comes up again when items are read
	if bytes.HasPrefix(head, parquetMagic) {
		return "parquet"
	}
	head = bytes.TrimLeft(head, " \t\r\n")
	if len(head) > 0 && (head[0] == '{' || head[0] == '[') {
		return "json"
	}
	return map[string]string{".csv": "csv", ".txt": "text", ".json": "json", ".jsonl": "json"}[extension(s.Name)]
}

// object reads a row in the form that the plan tells, or else a member that only rows of the form have.
func (f *anyFile) object(o object, row *rows.Row) error {
	switch {
	case f.columns != nil:
		return f.named(o, row)
	case o["conversations"] != nil || o["conversation"] != nil:
		return f.conversation(o, row)
	case o["instruction"] != nil:
		return f.alpaca(o, row)
	case o["payloads"] != nil:
		return f.payloads(o, row)
	case o["turns"] != nil:
		return f.questions(o, row)
	}
	if o["text"] != nil && o["prompt"] == nil && o["messages"] == nil && o["body"] == nil { // AIPerf's
		o["prompt"] = o.take("text")
	}
	err := f.read(o, row)
	if errors.Is(err, errNoPrompt) {
		return unusable("has no prompt, messages, token_ids, texts, conversations, instruction or turns: give columns")
	}
	return err
}

// payloads reads {"payloads": [...]} of AIPerf's inputs.json: the bodies of a session's requests. Each has what came
// before it, so with sessions the last one has all turns. Without sessions, the first one is sent.
func (f *anyFile) payloads(o object, row *rows.Row) error {
	list := o.take("payloads")
	if list[0] != '[' {
		return unusable("payloads is %s, not an array", typeOf(list))
	}
	var body object
	for payload := range values(list) {
		if body == nil || f.sessions {
			body = objectIn(payload)
		} else {
			f.unused.note("payloads behind the first")
		}
	}
	if body == nil {
		return unusable("has no payloads that are objects")
	}
	o.rest(f.unused, "")
	return f.read(body, row)
}

// named reads a row by the names in the plan.
func (f *anyFile) named(o object, row *rows.Row) error {
	prompt, messages := o.take(f.columns.GetPrompt()), o.take(f.columns.GetMessages())
	answer, err := o.text(f.columns.GetAnswer())
	if err != nil {
		return err
	}
	own := uint32(0)
	if value := o.take(f.columns.GetOsl()); value != nil {
		if own, err = parseOutput(f.columns.GetOsl(), value); err != nil {
			return err
		}
	}
	f.chat.limit = own
	row.OSL = f.lengths.output(own, answer)
	switch {
	case prompt != nil:
		err = f.prompt(f.columns.GetPrompt(), prompt, row)
	case messages != nil:
		err = f.messagesOrSession(messages, o, row)
	default:
		err = unusable("has no %s", f.columns.GetPrompt()+f.columns.GetMessages())
	}
	if err == nil {
		o.rest(f.unused, "")
	}
	return err
}

// line reads a line of a text as a prompt.
func (f *anyFile) line(text []byte, row *rows.Row) error {
	if !utf8.Valid(text) {
		return unusable("is not UTF-8")
	}
	f.text(rows.Escape(string(text)), nil, row)
	return nil
}

// text makes a row of a prompt and a recorded answer, both the insides of JSON strings. A nil answer: there is none.
func (f *anyFile) text(prompt string, answer []byte, row *rows.Row) {
	row.Kind, row.Content = rows.Text, append(row.Content[:0], prompt...)
	row.ISL, row.OSL = f.lengths.tokens(row.Content), f.lengths.output(0, answer)
}

// alpaca reads {"instruction": "...", "input": "...", "output": "..."}. The prompt is the instruction and, in a
// paragraph of its own, the input if there is one.
func (f *anyFile) alpaca(o object, row *rows.Row) error {
	var texts [3][]byte
	for i, name := range []string{"instruction", "input", "output"} {
		var err error
		if texts[i], err = o.text(name); err != nil {
			return err
		}
	}
	prompt, input, output := string(texts[0]), texts[1], texts[2]
	if prompt == "" {
		return unusable("has an empty instruction")
	}
	if len(input) > 0 {
		prompt += paragraph + string(input)
	}
	o.rest(f.unused, "")
	f.text(prompt, output, row)
	return nil
}

// questions reads {"turns": ["...", ...]} of SpecBench and MT-Bench, or {"turns": [{"text": "...", "output_length": n},
// ...]} of AIPerf: the questions of a conversation without answers. Without sessions, the first one is the prompt.
func (f *anyFile) questions(o object, row *rows.Row) error {
	turns := o["turns"]
	delete(o, "turns")
	if turns[0] != '[' {
		return unusable("turns is %s, not an array", typeOf(turns))
	}
	for turn := range values(turns) {
		own := uint32(0)
		if one := objectIn(turn); one != nil {
			var err error
			if own, err = one.output(f.unused); err != nil {
				return err
			}
			if turn = one.take("text", "content"); turn == nil {
				return unusable("turns has an object without text or content")
			}
			one.rest(f.unused, "")
		}
		question, err := stringInside("turns", turn)
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(question)) == 0 {
			return unusable("turns has an empty question")
		}
		row.Turns = append(row.Turns, rows.Turn{ISL: f.lengths.tokens(question), OSL: f.lengths.output(own, nil),
			User: question})
	}
	o.rest(f.unused, "")
	if len(row.Turns) == 0 {
		return unusable("has no turns")
	}
	if f.sessions {
		return asSession(row)
	}
	first := row.Turns[0]
	row.Turns = row.Turns[:0]
	f.text(string(first.User), nil, row)
	row.OSL = first.OSL
	return nil
}

// parquetMagic is how a Parquet file starts.
var parquetMagic = []byte("PAR1")
