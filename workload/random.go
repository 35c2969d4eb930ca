package workload

import (
	"fmt"
	"iter"
	"math"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
)

// random makes prompts of independent, uniform random tokens, behind a shared prefix if the plan asks for one.
// Otherwise two requests start alike only by chance: with the default ids, the first 16 tokens (a typical block of a
// prefix cache) are the same in one pair of 10^63, so there are no cache hits that the plan did not ask for. A few
// first words are enough: with 8 of them and 400 words it is one pair of 10^39. A cache that matches single tokens
// finds the first one or two of a prompt. It does so with any vocabulary once it has seen as many prompts as there are
// words.
type random struct {
	words    *vocabulary
	contents draw.Sequence
	isl, osl lengths
	template uint32
	prefixes *prefixes // nil: none
	images   *images   // nil: none
	texts    uint32    // number of texts; 0: one prompt
	busting  cacheBusting
}

// newRandom checks the content and fills in defaults.
func newRandom(r *spatev1.RandomContent, c Config) (*random, error) {
	isl, osl, err := shapesOf(r)
	if err != nil {
		return nil, err
	}
	words, b, err := newBusting(c)
	if err != nil {
		return nil, err
	}
	pictures, err := newImages(r.GetImages(), c)
	if err != nil {
		return nil, err
	}
	if uint64(r.GetTexts())*uint64(isl.longest()) > maxTokens {
		return nil, fmt.Errorf("workload: a request may have %d texts of %d tokens each: at most %d tokens together",
			r.GetTexts(), isl.longest(), maxTokens)
	}
	w := &random{
		images: pictures, words: words, contents: draw.New(c.Seed, "content"), template: c.Template, busting: b,
		isl: newLengths(isl, c.Seed, "isl"), osl: newLengths(osl, c.Seed, "osl"),
		texts: r.GetTexts(),
	}
	if p := r.GetPrefix(); p != nil {
		shortest, longest := contentTokens(isl.shortest(), c.Template), contentTokens(isl.longest(), c.Template)
		w.prefixes = newPrefixes(p, c.Seed, w.promptTokens, uint64(shortest), uint64(longest))
	}
	return w, nil
}

// shapesOf returns the distributions of the lengths.
func shapesOf(r *spatev1.RandomContent) (isl, osl shape, err error) {
	if isl, err = shapeOf("isl", r.GetIsl(), r.GetIslLengths()); err != nil {
		return nil, nil, err
	}
	if osl, err = shapeOf("osl", r.GetOsl(), r.GetOslLengths()); err != nil {
		return nil, nil, err
	}
	ratio := r.GetRangeRatio()
	if ratio == 0 {
		return isl, osl, nil
	}
	return rangeAround(r.GetIsl(), ratio), rangeAround(r.GetOsl(), ratio), nil
}

// contentTokens returns how many tokens of a prompt are left for the content when the server adds those of its
// template.
func contentTokens(isl, template uint32) uint32 {
	if isl <= template {
		return 1
	}
	return isl - template
}

// serverISL returns how many tokens the server counts in a prompt of requested length isl: no prompt is shorter than
// the template plus one token.
func serverISL(isl, template uint32) uint32 { return max(isl, template+1) }

// promptTokens returns how many tokens of a request's prompt are content.
func (w *random) promptTokens(index uint64) uint64 {
	return uint64(contentTokens(w.isl.at(index), w.template))
}

// Spec returns the lengths. With images, the ISL is not known: servers turn an image into a number of tokens that
// depends on the model.
func (w *random) Spec(index uint64, _ int) (Spec, error) {
	s := Spec{ISL: serverISL(w.isl.at(index), w.template), OSL: w.osl.at(index), Turns: 1}
	if w.prefixes != nil {
		s.Shared = uint32(w.prefixes.shared(index))
	}
	if w.images != nil {
		s.Images, s.Text, s.ISL = uint32(w.images.count), s.ISL, 0
	}
	if w.texts > 0 {
		tokens := uint64(0)
		s.Texts = w.texts
		for isl := range w.textLengths(index) {
			tokens += uint64(serverISL(isl, w.template))
		}
		s.ISL = uint32(min(tokens, math.MaxUint32))
	}
	return s, nil
}

// AppendPrompt appends the prompt. Token j of the prompt is number j of the sequence that it is drawn from, whichever
// sequence that is.
func (w *random) AppendPrompt(dst []byte, r Request) ([]byte, error) {
	if w.texts > 0 {
		return w.appendTexts(dst, r), nil
	}
	n := w.promptTokens(r.Index)
	t := open(dst, r.Form, w.words)
	if w.images != nil {
		t.beginWithImages(user)
	} else {
		t.begin(user)
	}
	start := w.busting.start(&t, r.Index, n)
	if w.prefixes != nil {
		var tokens draw.Sequence
		tokens, start = w.prefixes.of(r.Index)
		t.tokens(tokens, 0, start)
	}
	t.tokens(w.contents.Sub(r.Index), start, n-start)
	if w.images != nil {
		t.endWithImages(w.images, r.Index)
	} else {
		t.end()
	}
	return t.close(), nil
}

// Close does nothing: there is no file.
func (w *random) Close() error { return nil }

// textLengths yields the length of each text of a request.
func (w *random) textLengths(index uint64) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		of := w.isl.of(index)
		for k := range w.texts {
			if !yield(of.at(uint64(k))) {
				return
			}
		}
	}
}

// appendTexts appends the texts of a request as a JSON list. Their tokens are one sequence, which the texts divide.
func (w *random) appendTexts(dst []byte, r Request) []byte {
	dst = append(dst, '[')
	content, starts, next := w.contents.Sub(r.Index), w.busting.starts.Sub(r.Index), uint64(0)
	for isl := range w.textLengths(r.Index) {
		if next > 0 {
			dst = append(dst, ',')
		}
		n := uint64(contentTokens(isl, w.template))
		t := open(dst, r.Form, w.words)
		unique := w.busting.uniqueTokens(w.words, r.Form, n)
		t.tokens(starts, next, unique)
		t.tokens(content, next+unique, n-unique)
		dst, next = t.close(), next+n
	}
	return append(dst, ']')
}
