package dataset

import (
	"cmp"
	"maps"
	"strconv"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/rows"
)

// blockForm is a form of traces whose rows have hash ids.
type blockForm struct {
	unit  float64 // of timestamp, in nanoseconds
	block uint32  // default number of tokens per block
	// names are the members of a row that say how it belongs to others. Without sessions they are not used.
	names func(*linkFields) map[string]*[]byte
}

var (
	// mooncakeForm is also the form of AIPerf's and Dynamo's mooncake_trace, and of Dynamo's agentic traces.
	mooncakeForm = blockForm{unit: 1e6, block: 512, names: func(l *linkFields) map[string]*[]byte {
		return map[string]*[]byte{"session_id": &l.session, "request_id": &l.request, "wait_for": &l.waits,
			"delay": &l.delay, "delay_ms": &l.delay, "tool_wait_ms": &l.tool}
	}}
	bailianForm = blockForm{unit: 1e9, block: 16, names: func(l *linkFields) map[string]*[]byte {
		return map[string]*[]byte{"chat_id": &l.request, "parent_chat_id": &l.parent}
	}}
)

func init() {
	register("mooncake", Source{Help: "a trace in Mooncake's form, with its common prefixes",
		Example: "Lines with timestamp, input_length, output_length, hash_ids.",
		build:   func(b *builder, w *spatev1.Workload, o Options) { b.blocks(content.Trace(w), mooncakeForm, o) }})
	register("bailian", Source{Help: "a trace in the form of the Qwen traces of Bailian",
		Example: "Lines with chat_id, timestamp, input_length, output_length, hash_ids.",
		build:   func(b *builder, w *spatev1.Workload, o Options) { b.blocks(content.Trace(w), bailianForm, o) }})
}

// mooncake reads rows of {"timestamp": ms, "output_length": n} with one of {"input_length": n, "hash_ids": [...]},
// {"input_length": n}, {"text_input": "..."} and {"messages": [...]}.
type mooncake struct {
	form   blockForm
	block  uint32
	blocks []uint64
	unused *Unused
	// prompts reads text and messages into row.
	prompts jsonl
	row     rows.Row
	// links takes the members that say how a row belongs to others. Nil: they are not used.
	links *linkFields
}

// traceFields are the relevant members of a row. Nil: absent.
type traceFields struct{ time, input, output, hashes, text, messages []byte }

// parse reads a row that has a time. The row's blocks and content are valid until the next call.
func (m *mooncake) parse(text []byte) (timedRow, error) {
	if err := checkObject(text); err != nil {
		return timedRow{}, err
	}
	f := m.find(text)
	if f.time == nil {
		return timedRow{}, unusable("has no timestamp")
	}
	return m.timed(f)
}

// timed reads a row from its members. A row of a session may have no time.
func (m *mooncake) timed(f traceFields) (t timedRow, err error) {
	if f.time != nil {
		if t.at, err = parseTime("timestamp", f.time, m.form.unit); err != nil {
			return t, err
		}
	}
	if t.osl = m.prompts.lengths.fallback; f.output != nil {
		if t.osl, err = parseLength("output_length", f.output); err != nil {
			return t, err
		}
	}
	return t, m.prompt(&t, f)
}

// find finds the members of a row. A null is an absent member.
func (m *mooncake) find(text []byte) (f traceFields) {
	places := map[string]*[]byte{"timestamp": &f.time, "created_time": &f.time, "input_length": &f.input,
		"input_tokens": &f.input, "output_length": &f.output, "output_tokens": &f.output, "hash_ids": &f.hashes,
		"text_input": &f.text, "messages": &f.messages}
	if m.links != nil {
		*m.links = linkFields{}
		maps.Copy(places, m.form.names(m.links))
	}
	m.prompts.fields.Reset()
	for name, value := range members(text) {
		switch place := places[name]; {
		case place == nil && !m.prompts.takeField(name, value):
			m.unused.note(name)
		case place == nil:
		case value[0] != 'n':
			*place = value
		}
	}
	return f
}

// prompt reads what the row has of a prompt: lengths with or without blocks, text or messages.
func (m *mooncake) prompt(t *timedRow, f traceFields) error {
	given := 0
	for _, value := range [][]byte{f.input, f.text, f.messages} {
		if value != nil {
			given++
		}
	}
	switch {
	case given > 1:
		return unusable("has more than one of input_length, text_input and messages")
	case f.input != nil:
		m.prompts.noteFields()
		return m.lengths(t, f)
	case f.hashes != nil:
		return unusable("has hash_ids without input_length")
	case given == 0:
		return unusable("has no input_length, text_input or messages")
	}
	m.row.Reset()
	var err error
	if f.text != nil {
		err = m.prompts.prompt("text_input", f.text, &m.row)
	} else {
		err = m.prompts.messages(f.messages, &m.row)
	}
	if f.messages == nil {
		m.prompts.noteFields()
	}
	t.kind, t.isl = m.row.Kind, m.row.ISL
	t.prompt = &prompt{content: m.row.Content, fields: m.row.Fields, insert: m.row.Insert}
	if err == nil && t.osl == 0 {
		err = exclude(failedRequest)
	}
	return err
}

// lengths reads the length of a prompt, and its blocks if it has any.
func (m *mooncake) lengths(t *timedRow, f traceFields) (err error) {
	if t.isl, err = parseLength("input_length", f.input); err != nil {
		return err
	}
	if f.hashes == nil {
		return checkTokens(*t)
	}
	if err := m.hashes(f.hashes); err != nil {
		return err
	}
	t.kind, t.blocks = rows.Blocks, m.blocks
	return m.check(*t)
}

// hashes reads hash ids.
func (m *mooncake) hashes(value []byte) error {
	if value[0] != '[' {
		return unusable("hash_ids is %s, not an array", typeOf(value))
	}
	m.blocks = m.blocks[:0]
	for v := range values(value) {
		id, err := strconv.ParseUint(string(v), 10, 64)
		if err != nil {
			return unusable("hash_ids has %.40s, which is not a whole number from 0 to 2^64-1", v)
		}
		m.blocks = append(m.blocks, id)
	}
	return nil
}

// check returns an error unless there is one block for each block_tokens of the prompt.
func (m *mooncake) check(t timedRow) error {
	want := (uint64(t.isl) + uint64(m.block) - 1) / uint64(m.block)
	if uint64(len(t.blocks)) != want {
		return unusable("has %d hash_ids, but an input_length of %d makes %d blocks of %d tokens: check block_tokens",
			len(t.blocks), t.isl, want, m.block)
	}
	return checkTokens(t)
}

// failedRequest is the reason for leaving out a request that failed when the trace was recorded.
const failedRequest = "has no tokens in prompt or answer: a request that failed"

// checkTokens leaves out rows without a prompt or an answer: requests that failed.
func checkTokens(t timedRow) error {
	if t.isl == 0 || t.osl == 0 {
		return exclude(failedRequest)
	}
	return nil
}

// blocks reads a trace whose rows may have hash ids.
func (b *builder) blocks(c *spatev1.TraceContent, form blockForm, o Options) {
	block := cmp.Or(c.GetBlockTokens(), form.block)
	b.header.BlockTokens = block
	known := newKnownPrefixes(block)
	m := &mooncake{form: form, block: block, unused: &b.skipped.Unused,
		prompts: jsonl{unused: &b.skipped.Unused, lengths: lengths{count: o.Count, fallback: defaultOutput}}}
	if play := c.GetSessions(); play != nil {
		m.links = new(linkFields)
		b.linked(c, play.GetHistory() != "none", func(text []byte) (linkedRow, error) { return m.linked(text, known) })
		return
	}
	b.trace(c, m.parse, func(t timedRow, row *rows.Row) (err error) {
		if t.kind != rows.Blocks {
			return nil
		}
		row.Blocks = append(row.Blocks[:0], t.blocks...)
		row.Shared, err = known.Shared(t.blocks, t.isl)
		return err
	})
}

// linked reads a row of a session. Its content is valid until the next call.
func (m *mooncake) linked(text []byte, known *knownPrefixes) (l linkedRow, err error) {
	if err := checkObject(text); err != nil {
		return l, err
	}
	f := m.find(text)
	t, err := m.timed(f)
	if err != nil {
		return l, err
	}
	if l, err = m.links.read(); err != nil {
		return l, err
	}
	if t.prompt == nil {
		m.row.Reset()
		m.row.Kind, m.row.Blocks = t.kind, append(m.row.Blocks, t.blocks...)
	}
	l.at, l.timed, l.content = t.at, f.time != nil, &m.row
	l.step = rows.Step{ISL: t.isl, OSL: t.osl}
	if t.kind == rows.Blocks {
		l.step.Shared, err = known.Shared(t.blocks, t.isl)
	}
	return l, err
}
