package dataset

import (
	"strconv"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/rows"
)

// defaultBlock is the number of tokens per block in Mooncake's published traces.
const defaultBlock = 512

func init() {
	register("mooncake", Source{Help: "a trace in Mooncake's form, with its common prefixes",
		Example: "Lines with timestamp, input_length, output_length, hash_ids.",
		build:   func(b *builder, w *spatev1.Workload, _ Options) { b.mooncake(content.Trace(w)) }})
}

// mooncake reads rows of {"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": [...]}.
type mooncake struct {
	block  uint32
	blocks []uint64
	unused *Unused
}

// parse reads a row. The row's blocks are valid until the next call.
func (m *mooncake) parse(text []byte) (t timedRow, err error) {
	if err := checkObject(text); err != nil {
		return t, err
	}
	const time, input, output, hashes = 1, 2, 4, 8
	found := 0
	for name, value := range members(text) {
		switch name {
		case "timestamp":
			found |= time
			t.at, err = parseTime(name, value, 1e6)
		case "input_length":
			found |= input
			t.isl, err = parseLength(name, value)
		case "output_length":
			found |= output
			t.osl, err = parseLength(name, value)
		case "hash_ids":
			found |= hashes
			err = m.hashes(value)
		default:
			m.unused.note(name)
		}
		if err != nil {
			return t, err
		}
	}
	for i, name := range [...]string{"timestamp", "input_length", "output_length", "hash_ids"} {
		if found&(1<<i) == 0 {
			return t, unusable("has no %s", name)
		}
	}
	t.blocks = m.blocks
	return t, m.check(t)
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

// checkTokens leaves out rows without a prompt or an answer: requests that failed.
func checkTokens(t timedRow) error {
	if t.isl == 0 || t.osl == 0 {
		return exclude("has no tokens in prompt or answer: a request that failed")
	}
	return nil
}

// mooncake reads a trace with blocks.
func (b *builder) mooncake(c *spatev1.TraceContent) {
	block := c.GetBlockTokens()
	if block == 0 {
		block = defaultBlock
	}
	b.header.BlockTokens = block
	known := newPrefixes(block)
	b.trace(c, (&mooncake{block: block, unused: &b.skipped.Unused}).parse, func(t timedRow, row *rows.Row) (err error) {
		row.Kind, row.Blocks = rows.Blocks, append(row.Blocks[:0], t.blocks...)
		row.Shared, err = known.shared(t.blocks, t.isl)
		return err
	})
}
