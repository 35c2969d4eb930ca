package dataset

import (
	"cmp"
	"strconv"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/rows"
)

// blockForm is a form of traces whose rows have hash ids.
type blockForm struct {
	unit  float64 // of timestamp, in nanoseconds
	block uint32  // default number of tokens per block
}

var (
	// mooncakeForm is also the form of AIPerf's and Dynamo's mooncake_trace.
	mooncakeForm = blockForm{unit: 1e6, block: 512}
	bailianForm  = blockForm{unit: 1e9, block: 16}
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
}

// traceFields are the relevant members of a row. Nil: absent.
type traceFields struct{ time, input, output, hashes, text, messages []byte }

// parse reads a row. The row's blocks and content are valid until the next call.
func (m *mooncake) parse(text []byte) (t timedRow, err error) {
	if err := checkObject(text); err != nil {
		return t, err
	}
	f := m.find(text)
	if f.time == nil {
		return t, unusable("has no timestamp")
	}
	if t.at, err = parseTime("timestamp", f.time, m.form.unit); err != nil {
		return t, err
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
	places := map[string]*[]byte{"timestamp": &f.time, "input_length": &f.input, "output_length": &f.output,
		"hash_ids": &f.hashes, "text_input": &f.text, "messages": &f.messages}
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
	known := newPrefixes(block)
	m := &mooncake{form: form, block: block, unused: &b.skipped.Unused,
		prompts: jsonl{unused: &b.skipped.Unused, lengths: lengths{count: o.Count, fallback: defaultOutput}}}
	b.trace(c, m.parse, func(t timedRow, row *rows.Row) (err error) {
		if t.kind != rows.Blocks {
			return nil
		}
		row.Blocks = append(row.Blocks[:0], t.blocks...)
		row.Shared, err = known.shared(t.blocks, t.isl)
		return err
	})
}
