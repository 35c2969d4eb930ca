package dataset

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"strconv"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
	"github.com/spate-load/spate/workload/rows"
)

// blockForm is a form of traces whose rows have hash ids.
type blockForm struct {
	unit  float64 // of timestamp, in nanoseconds
	block uint32  // default number of tokens per block
}

var (
	// mooncakeForm is also the form of AIPerf's and Dynamo's mooncake_trace, and of Dynamo's agentic traces.
	mooncakeForm = blockForm{unit: 1e6, block: 512}
	bailianForm  = blockForm{unit: 1e9, block: 16}
)

// mooncake reads rows of {"timestamp": ms, "output_length": n} with one of {"input_length": n, "hash_ids": [...]},
// {"input_length": n}, {"text_input": "..."} and {"messages": [...]}.
type mooncake struct {
	form   blockForm
	block  uint32
	blocks []uint64
	unused *Unused
	times  *timeUnit
	// prompts reads text and messages into row.
	prompts reader
	row     rows.Row
}

// parse reads a row. The row's blocks and content are valid until the next call.
func (m *mooncake) parse(it item) (t timedRow, err error) {
	o, err := readObject(it.Text)
	if err != nil {
		return t, err
	}
	t, timed, err := m.read(o)
	if err != nil {
		return t, err
	}
	t.untimed = !timed
	o.rest(m.unused, "")
	return t, nil
}

// read reads a row from its members. timed reports whether it has a time: a row of a session may have none.
func (m *mooncake) read(o object) (t timedRow, timed bool, err error) {
	if at := o.take("timestamp", "created_time"); at != nil {
		timed = true
		if t.at, err = parseTime("timestamp", at, m.form.unit); err != nil {
			return t, timed, err
		}
		m.times.add(t.at, bytes.ContainsRune(at, '.'))
	}
	t.osl = m.prompts.lengths.fallback
	if output := o.take("output_length", "output_tokens"); output != nil {
		if t.osl, err = parseLength("output_length", output); err != nil {
			return t, timed, err
		}
	}
	return t, timed, m.prompt(&t, o)
}

// prompt reads what the row has of a prompt: lengths with or without blocks, text or messages.
func (m *mooncake) prompt(t *timedRow, o object) (err error) {
	input, hashes := o.take("input_length", "input_tokens"), o.take("hash_ids")
	text, messages := o.take("text_input"), o.take("messages")
	m.row.Reset()
	switch {
	case input != nil && (text != nil || messages != nil) || text != nil && messages != nil:
		return unusable("has more than one of input_length, text_input and messages")
	case input != nil:
		return m.lengths(t, input, hashes)
	case hashes != nil:
		return unusable("has hash_ids without input_length")
	case text != nil:
		err = m.prompts.prompt("text_input", text, &m.row)
	case messages != nil:
		err = m.prompts.messages(messages, o.fields(), &m.row)
	default:
		return unusable("has no input_length, text_input or messages")
	}
	t.kind, t.isl = m.row.Kind, m.row.ISL
	t.prompt = &prompt{content: m.row.Content, fields: m.row.Fields, insert: m.row.Insert}
	if err == nil && t.osl == 0 {
		err = exclude(failedRequest)
	}
	return err
}

// lengths reads the length of a prompt, and its blocks if it has any.
func (m *mooncake) lengths(t *timedRow, input, hashes []byte) (err error) {
	if t.isl, err = parseLength("input_length", input); err != nil {
		return err
	}
	if hashes == nil {
		return checkTokens(*t)
	}
	if err := m.hashes(hashes); err != nil {
		return err
	}
	t.kind, t.blocks = rows.Blocks, m.blocks
	if want := (uint64(t.isl) + uint64(m.block) - 1) / uint64(m.block); uint64(len(t.blocks)) != want {
		return unusable("has %d hash_ids, but an input_length of %d makes %d blocks of %d tokens: check block_tokens",
			len(t.blocks), t.isl, want, m.block)
	}
	return checkTokens(*t)
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
	items := b.openItems
	b.openItems = func(s *itemSource) (itemReader, error) {
		all, err := items(s)
		return &agentTraces{itemReader: all, block: uint64(block), chains: map[string][]uint64{}}, err
	}
	if form != mooncakeForm {
		b.times.factor = 1
	}
	m := &mooncake{form: form, block: block, unused: &b.skipped.Unused, times: &b.times,
		prompts: reader{unused: &b.skipped.Unused, lengths: lengths{count: o.Count, fallback: defaultOutput}}}
	if play := c.GetSessions(); play != nil {
		b.linked(play.GetHistory() != "none", func(text []byte) (linkedRow, error) { return m.linked(text, known) })
		return
	}
	b.trace(m.parse, func(t timedRow, row *rows.Row) (err error) {
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
	o, err := readObject(text)
	if err != nil {
		return l, err
	}
	t, timed, err := m.read(o)
	if err != nil {
		return l, err
	}
	if l, err = linksOf(o); err != nil {
		return l, err
	}
	o.rest(m.unused, "")
	if t.prompt == nil {
		m.row.Kind, m.row.Blocks = t.kind, append(m.row.Blocks, t.blocks...)
	}
	l.at, l.timed, l.content = t.at, timed, &m.row
	l.step = rows.Step{ISL: t.isl, OSL: t.osl}
	if t.kind == rows.Blocks {
		l.step.Shared, err = known.Shared(t.blocks, t.isl)
	}
	return l, err
}

// The rest of this file finds how much of a prompt, given as blocks of tokens, began an earlier prompt.

// maxPrefixes is the maximum number of different prompt starts. They take 11 to 23 bytes each while a file is built,
// at most 1.4 GiB: Go's maps grow a small table at a time.
const maxPrefixes = 1 << 26

// knownPrefixes is the set of the starts of all prompts so far. Each start is a hash of its block ids, so that a block
// counts as seen only behind the same blocks as before, as in a prefix cache. (Among n starts, two have the same hash
// with a chance of n^2 / 2^65.)
type knownPrefixes struct {
	seen  map[[8]byte]struct{} // as numbers, keys would be padded to 16 bytes
	block uint32               // tokens
	limit int
}

func bytesOf(hash uint64) (b [8]byte) {
	binary.NativeEndian.PutUint64(b[:], hash)
	return b
}

// newKnownPrefixes returns an empty set for blocks of so many tokens.
func newKnownPrefixes(block uint32) *knownPrefixes {
	return &knownPrefixes{seen: map[[8]byte]struct{}{}, block: block, limit: maxPrefixes}
}

// Shared returns how many tokens at the start of a prompt were the start of an earlier prompt, and records the prompt.
// A last block that is shorter than the others counts as seen if it had the same length before, or is part of a whole
// block.
func (p *knownPrefixes) Shared(blocks []uint64, isl uint32) (uint32, error) {
	tokens, chain, open := uint32(0), uint64(0), true
	for i, id := range blocks {
		chain = draw.Mix(chain ^ draw.Mix(id+1))
		key, size := chain, min(p.block, isl-uint32(i)*p.block)
		seen := false
		if size < p.block {
			_, seen = p.seen[bytesOf(chain)]
			key = draw.Mix(chain + uint64(size))
		}
		_, again := p.seen[bytesOf(key)]
		p.seen[bytesOf(key)] = struct{}{}
		seen = seen || again
		if open = open && seen; open {
			tokens += size
		}
	}
	if len(p.seen) > p.limit {
		return 0, fmt.Errorf("it has more than %d different blocks: split the trace into parts", p.limit)
	}
	return tokens, nil
}
