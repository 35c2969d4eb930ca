package dataset

import (
	"fmt"
	"unicode/utf8"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/rows"
)

// maxSonnetBytes is the maximum size, in bytes, of the text of a sonnet workload. Agents keep the text in memory.
const maxSonnetBytes = 16 << 20

func init() {
	register("sonnet", Source{Help: "lines of a text file, as vLLM's sonnet dataset", Example: "Any text.",
		build: func(b *builder, w *spatev1.Workload, o Options) { b.sonnet(w.GetSonnet(), o) }})
}

// sonnet reads the lines of a text, each with its line feed. Empty lines are left out.
type sonnet struct {
	lengths  lengths
	size     int
	previous string
	tokens   uint32
	// sumsMatch reports whether, so far, every two consecutive lines had as many tokens together as separately.
	sumsMatch bool
}

// parse reads a line.
func (s *sonnet) parse(text []byte, row *rows.Row) error {
	if s.size += len(text); s.size > maxSonnetBytes {
		return fmt.Errorf("the text is longer than %d MiB: sonnet is for short texts, use jsonl for longer ones",
			maxSonnetBytes>>20)
	}
	if !utf8.Valid(text) {
		return unusable("is not UTF-8")
	}
	line := string(text) + "\n"
	row.Kind, row.OSL, row.Content = rows.Text, s.lengths.osl, append(row.Content[:0], rows.Escape(line)...)
	row.ISL = s.count(line)
	return nil
}

// count returns the tokens of a line, and checks that the line has as many behind the line before.
func (s *sonnet) count(line string) uint32 {
	if s.lengths.count == nil {
		return 0
	}
	n := clamp(s.lengths.count(line))
	if s.previous != "" {
		s.sumsMatch = s.sumsMatch && clamp(s.lengths.count(s.previous+line)) == s.tokens+n
	}
	s.previous, s.tokens = line, n
	return n
}

// sonnet reads lines of text. The longest request is the one that the workload asks for, whatever the lines.
func (b *builder) sonnet(c *spatev1.SonnetContent, o Options) {
	f := &sonnet{lengths: lengths{count: o.Count, osl: c.GetOsl()}, sumsMatch: o.Count != nil}
	b.openItems = func(s *itemSource) (itemReader, error) { return newLines(s.Reader), nil }
	b.rows(f.parse)
	b.end = func() error {
		b.longest, b.unknown = uint64(c.GetIsl())+uint64(c.GetOsl()), false
		if f.sumsMatch {
			b.flags |= rows.Additive
		}
		return nil
	}
}
