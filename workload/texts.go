package workload

import (
	"iter"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// textsOf returns the distribution of the number of texts of a request. Nil: requests have one prompt.
func textsOf(r *spatev1.RandomContent) (shape, error) {
	if r.GetTexts() == 0 && r.GetTextCounts() == nil {
		return nil, nil //nolint:nilnil // nil: one prompt
	}
	return shapeOf("texts", r.GetTexts(), r.GetTextCounts())
}

// textLengths yields the length of each text of a request.
func (w *random) textLengths(index uint64) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		of := w.isl.of(index)
		for k := range w.texts.at(index) {
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
