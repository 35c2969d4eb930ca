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
	// maxLines is how many lines of a text are counted one by one. Other lines of a longer text are estimated by their
	// bytes.
	maxLines = 2000
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

// countEach counts each line with the server's tokenizer, in its normal place: after the end of another line.
func (t *text) countEach(ctx context.Context) error {
	base, err := t.tokenize(ctx, before)
	if err != nil {
		return err
	}
	counts := make(map[string]uint32)
	step := max(1, (len(t.lines)+maxLines-1)/maxLines)
	for i := 0; i < len(t.lines); i += step {
		counts[t.lines[i].Text] = 0
	}
	if err := t.countLineTokens(ctx, counts, base); err != nil {
		return err
	}
	rate := t.rate(counts)
	for i, l := range t.lines {
		n, counted := counts[l.Text]
		if !counted {
			n, t.rough = estimated(l.Text, rate), true
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

// rate returns the mean number of tokens per byte of counted lines.
func (t *text) rate(counts map[string]uint32) float64 {
	var tokens, bytes float64
	for line, n := range counts {
		tokens += float64(n)
		bytes += float64(len(line))
	}
	return tokens / bytes
}

// estimated returns the estimated length of a line from its bytes.
func estimated(line string, rate float64) uint32 {
	return max(1, uint32(float64(len(line))*rate+0.5))
}

// estimate counts blocks of lines by usage, and estimates lines by their bytes.
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
	rate := t.rate(counts)
	t.rough = true
	for i, l := range t.lines {
		t.lengths[i] = estimated(l.Text, rate)
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
