package ready

import (
	"context"
	"slices"
	"strings"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/draw"
)

const (
	// lineRequests is how many of a target's requests are left for lines and prompts when the words have been found.
	lineRequests = 20
	// blocks is how many parts of a text are counted, and blockLines their maximum number of lines.
	blocks, blockLines = 12, 32
	// checkedPrompts is how many whole prompts are counted, and checkedTokens their maximum length.
	checkedPrompts, checkedTokens = 4, 2048
)

// countLines finds out the lengths of the lines of the texts of sonnets, and how many tokens whole prompts of such
// lines have in addition. For other workloads it does nothing.
func (f *finder) countLines(ctx context.Context, way string) error {
	parts := content.Parts(f.stage.GetWorkload())
	for i, part := range parts {
		sonnet := part.GetSonnet()
		if sonnet == nil || f.lines == nil || f.client.Form() == workload.TokenIDs {
			continue
		}
		lines, err := f.lines(i)
		if err != nil {
			return err
		}
		t := &text{finder: f, lines: lines, lengths: make([]uint32, len(lines)), isl: sonnet.GetIsl()}
		switch way {
		case "server":
			err = t.estimate(ctx, f.tokenize)
		case "usage":
			err = t.estimate(ctx, f.measure)
		case "file":
			t.fromFile()
		}
		if err == nil {
			err = t.checkPrompts(ctx, way)
		}
		if err != nil {
			return err
		}
		if t.counted {
			for len(f.found.GetLines()) < len(parts) {
				f.found.Lines = append(f.found.Lines, &spatev1.LineTokens{})
			}
			f.found.Lines[i].Tokens = t.lengths
		}
	}
	return nil
}

// text is the text of a sonnet.
type text struct {
	*finder
	lines   []workload.Line
	lengths []uint32
	counted bool // the lengths can be used
	isl     uint32
}

// fromFile uses the lengths of the plan's tokenizer file. There are none if the plan has several such files.
func (t *text) fromFile() {
	for i, l := range t.lines {
		if l.Tokens == 0 {
			t.note("The lengths of the text's lines are estimated from their words: the plan has several tokenizer " +
				"files, and none is the workload's.")
			t.lengths = nil
			return
		}
		t.lengths[i] = l.Tokens
	}
}

// tokensOf are the estimated tokens of a word of a text and of a byte.
type tokensOf struct{ word, byte float64 }

// fit returns the numbers with the least squares of errors in the counted blocks. All sums are whole numbers, so their
// order does not matter.
func fit(counts map[string]uint32) tokensOf {
	var ww, wb, bb, wt, bt float64
	for line, n := range counts {
		w, b, t := float64(len(strings.Fields(line))), float64(len(line)), float64(n)
		ww, wb, bb, wt, bt = ww+w*w, wb+w*b, bb+b*b, wt+w*t, bt+b*t
	}
	if d := ww*bb - wb*wb; d > 0 {
		return tokensOf{word: (wt*bb - bt*wb) / d, byte: (bt*ww - wt*wb) / d}
	}
	return tokensOf{byte: bt / bb} // of one block
}

// estimated returns the estimated length of a line.
func (t tokensOf) estimated(line string) uint32 {
	return uint32(max(1, t.word*float64(len(strings.Fields(line)))+t.byte*float64(len(line))+0.5))
}

// estimate counts blocks of lines in their normal place, after the end of another line, and estimates lines by their
// words and bytes.
func (t *text) estimate(ctx context.Context, count tokenCounter) error {
	const before = "the\n"
	base, err := count(ctx, before)
	if err != nil {
		return err
	}
	counts := make(map[string]uint32)
	for i := range blocks {
		from := i * len(t.lines) / blocks
		block := joined(t.lines[from:min(from+blockLines, len(t.lines))])
		if counts[block] > 0 {
			continue // a text of few lines
		}
		w, err := count(ctx, before+block)
		if err != nil {
			return err
		}
		counts[block] = uint32(w - min(w, base))
	}
	each := fit(counts)
	for i, l := range t.lines {
		t.lengths[i] = each.estimated(l.Text)
	}
	return nil
}

// joined returns the text of lines.
func joined(lines []workload.Line) string {
	var all strings.Builder
	for _, l := range lines {
		all.WriteString(l.Text)
	}
	return all.String()
}

// checkPrompts counts whole prompts of lines. Their tokens beyond those of their lines are the template of such
// prompts. If the prompts differ in it, the lengths of prompts are off by that much.
func (t *text) checkPrompts(ctx context.Context, way string) error {
	if t.lengths == nil || t.unreachable {
		return nil
	}
	s, err := t.newWordFinder(ctx, way)
	if way == "file" {
		s, err = &wordFinder{countPrompt: t.measure}, nil
	}
	if err != nil {
		return err
	}
	extra := make([]int64, checkedPrompts)
	for i := range extra {
		prompt, tokens := t.randomPrompt(uint64(i))
		w, err := s.countPrompt(ctx, prompt)
		if err != nil {
			return err
		}
		extra[i] = int64(w) - int64(tokens)
	}
	t.recordLengths(extra, way)
	return nil
}

// randomPrompt returns a random prompt of lines, always the same for a number, and its length without what the server
// adds.
func (t *text) randomPrompt(number uint64) (string, uint32) {
	random := draw.New(1, "preparation", "lines").Sub(number)
	room := min(t.isl, checkedTokens)
	var prompt strings.Builder
	sum := uint32(0)
	for j := uint64(0); ; j++ {
		i := random.Below(j, uint64(len(t.lines)))
		if j > 0 && sum+t.lengths[i] > room {
			return prompt.String(), sum
		}
		prompt.WriteString(t.lines[i].Text)
		sum += t.lengths[i]
	}
}

// recordLengths records the tokens that prompts of lines have in addition to their lines.
func (t *text) recordLengths(extra []int64, way string) {
	least, most := slices.Min(extra), slices.Max(extra)
	// Estimated lengths say more about the lines than about the template, which other parts of a mixture have, too.
	if way == "file" && t.stage.GetWorkload().GetMix() == nil {
		t.found.Preparation.TemplateTokens = new(uint32(max(0, (least+most)/2)))
	}
	template := int64(t.found.Preparation.GetTemplateTokens())
	if off := max(most-template, template-least); off > 0 {
		t.note("Prompts of whole lines can differ from the requested length: by up to %d tokens in %d counted prompts.",
			off, len(extra))
	}
	t.counted = true
}
