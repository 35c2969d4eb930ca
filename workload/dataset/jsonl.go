package dataset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/rows"
)

// defaultOutput is the output length if neither the row nor the workload gives one.
const defaultOutput = 256

func init() {
	register("jsonl", Source{Help: "prompts, messages or token ids of a JSONL file",
		Example: `Lines such as {"prompt": "...", "osl": 100}.`,
		build: func(b *builder, w *spatev1.Workload, o Options) {
			c, unused := content.File(w), &b.skipped.Unused
			b.file(c, (&jsonl{unused: unused, chat: conversation{unused: unused}, sessions: c.GetSessions() != nil,
				lengths: lengths{count: o.Count, osl: c.GetOsl(), fallback: defaultOutput}}).parse)
		}})
}

// jsonl reads rows of {"prompt": "..."}, {"messages": [...]}, {"token_ids": [...]} or {"prompt": [...]}, each
// optionally with its own output length. Other members are counted as unused.
type jsonl struct {
	lengths  lengths
	sessions bool
	chat     conversation
	compact  bytes.Buffer
	fields   bytes.Buffer // of the row, behind one another
	unused   *Unused
}

// outputNames are the names of members that give an output length. The first one that is present is used.
var outputNames = [...]string{"output_length", "osl", "max_tokens", "max_completion_tokens", "output_tokens",
	"output_tokens_count"}

// fields are the relevant members of a row. Nil: absent.
type fields struct {
	prompt, messages, ids   []byte
	texts, query, documents []byte
	outputs                 [len(outputNames)][]byte
}

// findFields finds the members of a row.
func (j *jsonl) findFields(text []byte) (f fields) {
	j.fields.Reset()
	for name, value := range members(text) {
		switch name {
		case "prompt":
			f.prompt = value
		case "messages":
			f.messages = value
		case "token_ids", "prompt_token_ids":
			f.ids = value
		case "texts":
			f.texts = value
		case "query":
			f.query = value
		case "documents":
			f.documents = value
		default:
			if !f.takeOutput(name, value) && !j.takeField(name, value) {
				j.unused.note(name)
			}
		}
	}
	if len(f.prompt) > 0 && f.prompt[0] == '[' && f.ids == nil {
		f.ids, f.prompt = f.prompt, nil
	}
	return f
}

// takeOutput stores an output length, and reports whether the member is one.
func (f *fields) takeOutput(name string, value []byte) bool {
	i := slices.Index(outputNames[:], name)
	if i >= 0 && value[0] != 'n' {
		f.outputs[i] = value
	}
	return i >= 0
}

// noteIgnored counts the members that are ignored because of another member.
func (f *fields) noteIgnored(unused *Unused) {
	if f.ids != nil && f.messages != nil {
		unused.note("messages beside token_ids")
	}
	if f.prompt != nil && (f.ids != nil || f.messages != nil) {
		unused.note("prompt beside messages or token_ids")
	}
	if f.prompt != nil || f.ids != nil || f.messages != nil {
		for _, m := range [...]struct {
			name  string
			value []byte
		}{{"texts", f.texts}, {"query", f.query}, {"documents", f.documents}} {
			if m.value != nil {
				unused.note(m.name)
			}
		}
	}
	if f.texts != nil && f.query != nil {
		unused.note("query beside texts")
	}
	if f.texts != nil && f.documents != nil {
		unused.note("documents beside texts")
	}
	f.noteOutputs(unused)
}

// noteOutputs counts the output lengths that are ignored because of another one.
func (f *fields) noteOutputs(unused *Unused) {
	given := 0
	for i, value := range f.outputs {
		if value == nil {
			continue
		}
		if given++; given > 1 {
			unused.note(outputNames[i] + " beside another output length")
		}
	}
}

// parse reads a row.
func (j *jsonl) parse(text []byte, row *rows.Row) error {
	if err := checkObject(text); err != nil {
		return err
	}
	f := j.findFields(text)
	f.noteIgnored(j.unused)
	own, err := f.output()
	if err != nil {
		return err
	}
	if f.messages == nil || f.ids != nil || j.sessions {
		j.noteFields()
	}
	j.chat.limit = own
	row.OSL = j.lengths.output(own, nil)
	switch {
	case f.ids != nil:
		return parseIDs(f.ids, row)
	case f.messages != nil && j.sessions:
		return j.session(f.messages, row)
	case f.messages != nil:
		return j.messages(f.messages, row)
	case f.prompt != nil:
		return j.prompt("prompt", f.prompt, row)
	case f.texts != nil:
		return j.texts("texts", nil, f.texts, row)
	case f.query != nil && f.documents != nil:
		return j.texts("documents", f.query, f.documents, row)
	}
	return errNoPrompt
}

// errNoPrompt is returned for a row that has nothing to send.
var errNoPrompt = unusable("has no prompt, messages, token_ids, texts, or query and documents")

// output returns the row's own output length. 0: the row gives none.
func (f *fields) output() (uint32, error) {
	for i, value := range f.outputs {
		if value == nil {
			continue
		}
		return parseOutput(outputNames[i], value)
	}
	return 0, nil
}

// parseOutput reads an output length. 0: the value is null.
func parseOutput(name string, value []byte) (uint32, error) {
	if value[0] == 'n' {
		return 0, nil
	}
	n, err := parseLength(name, value)
	if err == nil && n == 0 {
		err = unusable("%s is 0: it must be at least 1", name)
	}
	return n, err
}

// prompt reads a prompt of text.
func (j *jsonl) prompt(name string, value []byte, row *rows.Row) error {
	text, err := stringInside(name, value)
	if err != nil {
		return err
	}
	if len(text) == 0 {
		return unusable("has an empty %s", name)
	}
	row.Kind, row.Content, row.ISL = rows.Text, append(row.Content[:0], text...), j.lengths.tokens(text)
	return nil
}

// texts reads a list of texts, and a query if there is one.
func (j *jsonl) texts(name string, query, list []byte, row *rows.Row) error {
	if list[0] != '[' {
		return unusable("%s is %s, not an array", name, typeOf(list))
	}
	row.Kind, row.Content, row.Turns = rows.Texts, row.Content[:0], row.Turns[:0]
	if query != nil {
		if err := j.prompt("query", query, row); err != nil {
			return err
		}
		row.Kind = rows.Documents
	}
	tokens := uint64(0)
	for value := range values(list) {
		text, err := stringInside("an element of "+name, value)
		if err != nil {
			return err
		}
		if len(text) == 0 {
			return unusable("has an empty element in %s", name)
		}
		turn := rows.Turn{ISL: j.lengths.tokens(text), User: text}
		row.Turns = append(row.Turns, turn)
		tokens += uint64(turn.ISL)
	}
	if len(row.Turns) == 0 {
		return unusable("has no %s", name)
	}
	row.ISL, row.TurnCount = clamp(int(tokens)), uint32(len(row.Turns))
	return nil
}

// parseIDs reads a prompt of token ids.
func parseIDs(array []byte, row *rows.Row) error {
	if array[0] != '[' {
		return unusable("token_ids is %s, not an array", typeOf(array))
	}
	for value := range values(array) {
		id, err := strconv.ParseUint(string(value), 10, 31)
		if err != nil {
			return unusable("token_ids has %.40s, which is not a whole number from 0 to 2^31-1", value)
		}
		row.IDs = append(row.IDs, uint32(id))
	}
	if len(row.IDs) == 0 {
		return unusable("has no token ids")
	}
	row.Kind, row.ISL = rows.TokenIDs, clamp(len(row.IDs))
	return nil
}

// session reads messages as a conversation that is played turn by turn.
func (j *jsonl) session(array []byte, row *rows.Row) error {
	if err := j.chat.read("messages", array, "role", "content"); err != nil {
		return err
	}
	j.chat.turns(row, &j.lengths)
	return asSession(row)
}

// messages reads the messages of one request. They are sent unchanged except for white space between them.
func (j *jsonl) messages(array []byte, row *rows.Row) error {
	if array[0] != '[' {
		return unusable("messages is %s, not an array", typeOf(array))
	}
	j.compact.Reset()
	if err := json.Compact(&j.compact, array); err != nil {
		return unusable("messages: %v", err)
	}
	row.Kind, row.Content = rows.Messages, append(row.Content[:0], j.compact.Bytes()...)
	err := j.checkMessages(row)
	if j.fields.Len() > 0 {
		row.Kind, row.ISL = rows.MessagesWithFields, 0 // servers put tools into the prompt
		row.Fields = append(row.Fields[:0], j.fields.Bytes()...)
	}
	return err
}

// takeField keeps a field that is sent beside messages, and reports whether the member is one. A null is none.
func (j *jsonl) takeField(name string, value []byte) bool {
	if !slices.Contains(rows.FieldNames, name) {
		return false
	}
	if value[0] == 'n' {
		return true
	}
	if j.fields.Len() > 0 {
		j.fields.WriteByte(',')
	}
	fmt.Fprintf(&j.fields, "%q:", name)
	_ = json.Compact(&j.fields, value) // it is valid
	return true
}

// noteFields counts fields that are not sent, because the row has no messages or is played turn by turn.
func (j *jsonl) noteFields() {
	for name := range members(slices.Concat([]byte{'{'}, j.fields.Bytes(), []byte{'}'})) {
		j.unused.note(name)
	}
}

// checkMessages finds where words can be inserted. The length is known only for a single message that is nothing but
// text.
func (j *jsonl) checkMessages(row *rows.Row) error {
	count := 0
	for message := range values(row.Content) {
		if message[0] != '{' {
			return unusable("messages has %s in place of an object", typeOf(message))
		}
		if count++; count > 1 {
			row.ISL = 0
			continue
		}
		text, whole := firstText(message)
		if text == nil {
			return unusable("has no text in its first message")
		}
		if row.Insert = offsetIn(row.Content, text); whole {
			row.ISL = j.lengths.tokens(text)
		}
	}
	if count == 0 {
		return unusable("has no messages")
	}
	return nil
}

// firstText returns the inside of the first text of a message: its content, with whole set, or the text of its first
// text part. Nil: the message has no text.
func firstText(message []byte) (text []byte, whole bool) {
	for name, value := range members(message) {
		if name == "content" && value[0] == '"' {
			text, whole = value[1:len(value)-1], true
		}
		if name == "content" && value[0] == '[' {
			text, whole = firstPart(value), false
		}
	}
	return text, whole
}

// firstPart returns the inside of the text of the first message part that has a text.
func firstPart(parts []byte) []byte {
	for part := range values(parts) {
		if part[0] != '{' {
			continue
		}
		for name, value := range members(part) {
			if name == "text" && value[0] == '"' {
				return value[1 : len(value)-1]
			}
		}
	}
	return nil
}

// offsetIn returns the index at which part starts in text. part must be a subslice of text: both then end at the same
// capacity.
func offsetIn(text, part []byte) int { return cap(text) - cap(part) }
