package dataset

import (
	"bytes"
	"slices"
	"strconv"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/rows"
)

// defaultOutput is the output length if neither the row nor the workload gives one.
const defaultOutput = 256

// reader makes rows of the objects, conversations and lines of a file.
type reader struct {
	lengths  lengths
	sessions bool // conversations are played turn by turn
	chat     conversation
	unused   *Unused
}

// newReader returns the reader of a file with conversations or prompts.
func newReader(b *builder, c *spatev1.FileContent, o Options) *reader {
	unused := &b.skipped.Unused
	return &reader{unused: unused, chat: conversation{unused: unused}, sessions: c.GetSessions() != nil,
		lengths: lengths{count: o.Count, osl: c.GetOsl(), fallback: defaultOutput}}
}

// outputNames are the names of members that give an output length. The first one that is present is used.
var outputNames = []string{"output_length", "osl", "max_tokens", "max_completion_tokens", "output_tokens",
	"output_tokens_count"}

// usedNames are the members that rows may have.
var usedNames = append([]string{"prompt", "messages", "token_ids", "prompt_token_ids", "texts", "query", "documents"},
	outputNames...)

// read reads rows of {"prompt": "..."}, {"messages": [...]}, {"token_ids": [...]}, {"prompt": [...]}, {"texts": [...]} or
// {"query": "...", "documents": [...]}, each optionally with its own output length, or as the body of a batch request.
func (r *reader) read(o object, row *rows.Row) error {
	if body := objectIn(o["body"]); body != nil { // a line of OpenAI's batch files
		o = body
	}
	own, err := o.output(r.unused)
	if err != nil {
		return err
	}
	r.chat.limit = own
	row.OSL = r.lengths.output(own, nil)
	used, err := r.content(o, row)
	if err == nil {
		o.rest(r.unused, used, usedNames...)
	}
	return err
}

// content reads what the row has to send, and returns the name of the member with it.
func (r *reader) content(o object, row *rows.Row) (used string, err error) {
	if ids := o.take("token_ids", "prompt_token_ids"); ids != nil {
		return "token_ids", parseIDs(ids, row)
	}
	if messages := o.take("messages"); messages != nil {
		return "messages", r.messagesOrSession(messages, o, row)
	}
	if prompt := o.take("prompt"); bytes.HasPrefix(prompt, []byte{'['}) {
		return "prompt", parseIDs(prompt, row)
	} else if prompt != nil {
		return "prompt", r.prompt("prompt", prompt, row)
	}
	if texts := o.take("texts"); texts != nil {
		return "texts", r.texts("texts", nil, texts, row)
	}
	if query, documents := o.take("query"), o.take("documents"); query != nil && documents != nil {
		return "documents", r.texts("documents", query, documents, row)
	}
	return "", errNoPrompt
}

// messagesOrSession reads messages with the fields beside them, or as a conversation that is played turn by turn.
func (r *reader) messagesOrSession(messages []byte, o object, row *rows.Row) error {
	if !r.sessions {
		return r.ask(messages, o.fields(), row)
	}
	if err := r.chat.read("messages", messages); err != nil {
		return err
	}
	r.chat.turns(row, &r.lengths)
	return asSession(row)
}

// errNoPrompt is returned for a row that has nothing to send.
var errNoPrompt = unusable("has no prompt, messages, token_ids, texts, or query and documents")

// output takes the row's own output length. 0: the row gives none. Others beside it are counted as unused.
func (o object) output(unused *Unused) (own uint32, err error) {
	used := ""
	for _, name := range outputNames {
		switch value := o.take(name); {
		case value == nil:
		case used != "":
			unused.note(name + " beside " + used)
		default:
			if own, err = parseOutput(name, value); err != nil {
				return 0, err
			}
			used = name
		}
	}
	return own, nil
}

// parseOutput reads an output length.
func parseOutput(name string, value []byte) (uint32, error) {
	n, err := parseLength(name, value)
	if err == nil && n == 0 {
		err = unusable("%s is 0: it must be at least 1", name)
	}
	return n, err
}

// prompt reads a prompt of text.
func (r *reader) prompt(name string, value []byte, row *rows.Row) error {
	text, err := stringInside(name, value)
	if err != nil {
		return err
	}
	if len(text) == 0 {
		return unusable("has an empty %s", name)
	}
	row.Kind, row.Content, row.ISL = rows.Text, append(row.Content[:0], text...), r.lengths.tokens(text)
	return nil
}

// texts reads a list of texts, and a query if there is one.
func (r *reader) texts(name string, query, list []byte, row *rows.Row) error {
	if list[0] != '[' {
		return unusable("%s is %s, not an array", name, typeOf(list))
	}
	row.Kind, row.Content, row.Turns = rows.Texts, row.Content[:0], row.Turns[:0]
	if query != nil {
		if err := r.prompt("query", query, row); err != nil {
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
		turn := rows.Turn{ISL: r.lengths.tokens(text), User: text}
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

// messageNames are the members of messages that APIs know. Strict servers refuse others.
var messageNames = []string{"role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "audio",
	"reasoning", "reasoning_content", "reasoning_details", "thinking", "prefix", "partial", "cache_control"}

// ask reads the messages of one request as files record them. What an assistant says last is the recorded answer. It is
// not sent: its length is the output asked for, unless the row gives one.
func (r *reader) ask(array, fields []byte, row *rows.Row) error {
	if array[0] != '[' {
		return unusable("messages is %s, not an array", typeOf(array))
	}
	sent, asked := []byte{'['}, 0 // asked: the length of sent up to the last message before the answer
	var answer []byte
	for message := range values(array) {
		if message[0] != '{' {
			return unusable("messages has %s in place of an object", typeOf(message))
		}
		if len(sent) > 1 {
			sent = append(sent, ',')
		}
		start := len(sent)
		sent = r.message(sent, message)
		if o := objectIn(sent[start:]); string(o["role"]) != `"assistant"` || o.take("prefix", "partial") != nil {
			asked, answer = len(sent), nil
		} else if text, _ := firstText(sent[start:]); answer == nil {
			answer = text
		}
	}
	if asked == 0 && len(sent) > 1 {
		return unusable("has no message of a user")
	}
	if asked > 0 && asked < len(sent) {
		sent = sent[:asked]
		r.unused.note("recorded answer (its length is the output asked for)")
		row.OSL = r.lengths.output(r.chat.limit, answer)
	}
	return r.messages(append(sent, ']'), fields, row)
}

// message appends a message as APIs have it.
func (r *reader) message(dst, message []byte) []byte {
	dst = append(dst, '{')
	for name, value := range members(message) {
		value = compact(value)
		switch name {
		case "from":
			name = "role"
			if side, known := sides[string(bytes.ToLower(bytes.Trim(value, `"`)))]; known {
				value = []byte([]string{system: `"system"`, user: `"user"`, assistant: `"assistant"`}[side])
			}
		case "value":
			name = "content"
		}
		if !slices.Contains(messageNames, name) {
			r.unused.note(name + " of messages")
			continue
		}
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(append(append(append(dst, '"'), name...), `":`...), value...)
	}
	return append(dst, '}')
}

// messages reads the messages of one request, and the fields that are sent beside them. They are sent unchanged except
// for white space between them.
func (r *reader) messages(array, fields []byte, row *rows.Row) error {
	if array[0] != '[' {
		return unusable("messages is %s, not an array", typeOf(array))
	}
	row.Kind, row.Content = rows.Messages, append(row.Content[:0], compact(array)...)
	err := r.checkMessages(row)
	if len(fields) > 0 {
		row.Kind, row.ISL = rows.MessagesWithFields, 0 // servers put tools into the prompt
		row.Fields = append(row.Fields[:0], fields...)
	}
	return err
}

// checkMessages finds where words can be inserted. The length is known only for a single message that is nothing but
// text.
func (r *reader) checkMessages(row *rows.Row) error {
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
		// text is a part of row.Content, so both end at the same capacity
		if row.Insert = cap(row.Content) - cap(text); whole {
			row.ISL = r.lengths.tokens(text)
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
		if text := objectIn(part)["text"]; len(text) > 0 && text[0] == '"' {
			return text[1 : len(text)-1]
		}
	}
	return nil
}
