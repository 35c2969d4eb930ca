package workload

import (
	"errors"
	"fmt"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
	"github.com/spate-load/spate/workload/mix"
)

// mixture sends the requests of several workloads. Each part is what it would be as a workload of its own, with a seed
// of its own: its arrivals are numbered from 0.
type mixture struct {
	mix   *mix.Mix
	parts []Workload
}

// newMixture makes the parts.
func newMixture(m *spatev1.Mixture, c Config) (*mixture, error) {
	w := &mixture{}
	var weights []float64
	for i, part := range m.GetParts() {
		of := c
		of.Workload, of.Rows, of.PartRows = part.GetWorkload(), nil, nil
		if of.Workload.GetMix() != nil {
			return nil, fmt.Errorf("workload: part %d of mixture %q is a mixture itself", i+1, c.Workload.GetName())
		}
		of.Seed = draw.Mix(c.Seed ^ draw.Hash("part", of.Workload.GetName()))
		of.Run = c.Run + of.Workload.GetName()
		if i < len(c.PartRows) {
			of.Rows = c.PartRows[i]
		}
		made, err := New(of)
		if err != nil {
			return nil, fmt.Errorf("part %q: %w", of.Workload.GetName(), err)
		}
		w.parts, weights = append(w.parts, made), append(weights, part.GetWeight())
	}
	var err error
	if w.mix, err = mix.New(c.Seed, weights); err != nil {
		return nil, fmt.Errorf("workload: mixture %q: %w", c.Workload.GetName(), err)
	}
	return w, nil
}

// Spec implements Workload.
func (w *mixture) Spec(index uint64, turn int) (Spec, error) {
	part, number := w.mix.Of(index)
	s, err := w.parts[part].Spec(number, turn)
	s.Part = part
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
