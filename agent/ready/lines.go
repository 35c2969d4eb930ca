package ready

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/draw"
)

const (
	// keptRequests is how many of a target's requests are left to check whole prompts, and how they are counted.
	keptRequests = 2 * checkedPrompts
	// lineRequests is how many are left for lines and prompts when the words have been found.
	lineRequests = 28
	// blocks is how many parts of a text are counted if each costs a request to the model, and blockLines their maximum
	// number of lines.
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
			err = t.countEach(ctx)
		case "usage":
			err = t.estimate(ctx)
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
	rough   bool // some lengths are estimates
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

// countEach counts each line with the server's tokenizer, in its normal place: after the end of another line. Of a text
// with more lines than requests are left, it counts one of each part; words and bytes tell how long the others are.
func (t *text) countEach(ctx context.Context) error {
	base, err := t.tokenize(ctx, before)
	if err != nil {
		return err
	}
	counts := make(map[string]uint32)
	parts := uint64(max(1, min(len(t.lines), t.requestsLeft(keptRequests))))
	random := draw.New(1, "preparation", "counted lines") // lines at equal distances may have something in common
	for i := range parts {
		from, to := i*uint64(len(t.lines))/parts, (i+1)*uint64(len(t.lines))/parts
		counts[t.lines[from+random.Below(i, to-from)].Text] = 0
	}
	if err := t.countLineTokens(ctx, counts, base); err != nil {
		return err
	}
	each := fit(counts)
	for i, l := range t.lines {
		n, counted := counts[l.Text]
		if !counted {
			n, t.rough = each.estimated(l.Text), true
		}
		t.lengths[i] = n
	}
	return nil
}

// before is a line that precedes each counted line.
const before = "the\n"

// countLineTokens counts the lines of a map, several at a time.
func (t *text) countLineTokens(ctx context.Context, counts map[string]uint32, base uint64) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxParallel)
	distinct := slices.Collect(maps.Keys(counts))
	tokens := make([]uint32, len(distinct))
	for i, line := range distinct {
		group.Go(func() error {
			w, err := t.tokenize(ctx, before+line)
			if err == nil && w < base {
				err = fmt.Errorf("the server counts fewer tokens with the line %q than without it", line)
			}
			tokens[i] = uint32(w - base)
			return err
		})
	}
	err := group.Wait()
	for i, line := range distinct {
		counts[line] = tokens[i]
	}
	return err
}

// tokensOf are the estimated tokens of a word of a text and of a byte.
type tokensOf struct{ word, byte float64 }

// fit returns the numbers with the least squares of errors in the counted lines. All sums are whole numbers, so their
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
	return tokensOf{byte: bt / bb} // of one line
}

// estimated returns the estimated length of a line.
func (t tokensOf) estimated(line string) uint32 {
	return uint32(max(1, t.word*float64(len(strings.Fields(line)))+t.byte*float64(len(line))+0.5))
}

// estimate counts blocks of lines by usage, and estimates lines by their words and bytes.
func (t *text) estimate(ctx context.Context) error {
	counts := make(map[string]uint32)
	for i := range blocks {
		from := i * len(t.lines) / blocks
		block := joined(t.lines[from:min(from+blockLines, len(t.lines))])
		if counts[block] > 0 {
			continue // a text of few lines
		}
		w, err := t.measure(ctx, before+block)
		if err != nil {
			return err
		}
		const tokensBefore = 2
		counts[block] = uint32(w) - min(uint32(w), t.found.Preparation.GetTemplateTokens()+tokensBefore)
	}
	each := fit(counts)
	t.rough = true
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
	t.recordLengths(extra)
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
func (t *text) recordLengths(extra []int64) {
	least, most := slices.Min(extra), slices.Max(extra)
	// Estimated lengths say more about the lines than about the template, which other parts of a mixture have, too.
	if !t.rough && t.stage.GetWorkload().GetMix() == nil {
		t.found.Preparation.TemplateTokens = new(uint32(max(0, (least+most)/2)))
	}
	template := int64(t.found.Preparation.GetTemplateTokens())
	if off := max(most-template, template-least); off > 0 {
		t.note("Prompts of whole lines can differ from the requested length: by up to %d tokens in %d counted prompts.",
			off, len(extra))
	}
	t.counted = true
}
