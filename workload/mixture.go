package workload

import (
	"errors"
	"fmt"
	"slices"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/draw"
)

// mixture sends the requests of several workloads. Each part is what it would be as a workload of its own, with a seed
// of its own: its arrivals are numbered from 0.
type mixture struct {
	mix interface {
		Of(index uint64) (part int, number uint64)
	}
	parts  []Workload
	models []models
}

// models draws the model of each request of a part.
type models struct {
	first int       // index of the variant of the first model
	upTo  []float64 // by model: the sum of its share and those before it, the last 1; a single model has none
	drawn draw.Sequence
}

// newModels returns the models of a part, whose first variant has this index. Shares follow Zipf's law.
func newModels(part *spatev1.Part, first int, seed uint64) models {
	m := models{first: first, drawn: draw.New(seed, "model")}
	n := len(content.Models(part))
	if n < 2 {
		return m
	}
	sum := 0.0
	for k := range n {
		sum += draw.Exp(-part.GetModels().GetZipf() * draw.Log(float64(k+1)))
		m.upTo = append(m.upTo, sum)
	}
	for k := range m.upTo {
		m.upTo[k] /= sum
	}
	return m
}

// variant returns the index of the variant of an arrival of the part.
func (m *models) variant(number uint64) int {
	if m.upTo == nil {
		return m.first
	}
	k, _ := slices.BinarySearch(m.upTo, m.drawn.Unit(number))
	return m.first + min(k, len(m.upTo)-1)
}

// newMixture makes the parts.
func newMixture(m *spatev1.Mixture, c Config) (*mixture, error) {
	w := &mixture{}
	var weights []float64
	first := 0
	for i, part := range m.GetParts() {
		of := c
		of.Workload, of.Rows, of.PartRows, of.LineTokens = part.GetWorkload(), nil, nil, nil
		if of.Workload.GetMix() != nil {
			return nil, fmt.Errorf("workload: part %d of mixture %q is a mixture itself", i+1, c.Workload.GetName())
		}
		of.Seed = draw.Mix(c.Seed ^ draw.Hash("part", of.Workload.GetName()))
		of.Run = c.Run + of.Workload.GetName()
		if i < len(c.PartRows) {
			of.Rows = c.PartRows[i]
		}
		if i < len(c.PartLineTokens) {
			of.LineTokens = c.PartLineTokens[i]
		}
		w.models = append(w.models, newModels(part, first, of.Seed))
		first += max(1, len(content.Models(part)))
		made, err := New(of)
		if err != nil {
			return nil, fmt.Errorf("part %q: %w", of.Workload.GetName(), err)
		}
		w.parts, weights = append(w.parts, made), append(weights, part.GetWeight())
	}
	if c.Traces != nil {
		w.mix = c.Traces
		return w, nil
	}
	byWeight, err := newMix(c.Seed, weights)
	if err != nil {
		return nil, fmt.Errorf("workload: mixture %q: %w", c.Workload.GetName(), err)
	}
	w.mix = byWeight
	return w, nil
}

// Spec implements Workload.
func (w *mixture) Spec(index uint64, turn int) (Spec, error) {
	part, number := w.mix.Of(index)
	s, err := w.parts[part].Spec(number, turn)
	s.Part, s.Variant = part, w.models[part].variant(number)
	return s, err
}

// AppendPrompt implements Workload.
func (w *mixture) AppendPrompt(dst []byte, r Request) ([]byte, error) {
	var part int
	part, r.Index = w.mix.Of(r.Index)
	return w.parts[part].AppendPrompt(dst, r)
}

// AppendFields implements Fielder.
func (w *mixture) AppendFields(body []byte, index uint64, turn int) ([]byte, error) {
	part, number := w.mix.Of(index)
	if fielder, ok := w.parts[part].(Fielder); ok {
		return fielder.AppendFields(body, number, turn)
	}
	return body, nil
}

// Waits implements Brancher.
func (w *mixture) Waits(index uint64) ([][]int, error) {
	part, number := w.mix.Of(index)
	if brancher, ok := w.parts[part].(Brancher); ok {
		return brancher.Waits(number)
	}
	return nil, fmt.Errorf("workload: arrival %d does not branch", index)
}

func (w *mixture) group(index uint64) (group uint64, grouped bool, err error) {
	part, number := w.mix.Of(index)
	return Group(w.parts[part], number)
}

// Close implements Workload.
func (w *mixture) Close() error {
	errs := make([]error, len(w.parts))
	for i, part := range w.parts {
		errs[i] = part.Close()
	}
	return errors.Join(errs...)
}
