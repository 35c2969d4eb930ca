package workload

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/spate-load/spate/internal/lists"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/schedule"
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
	return errors.Join(lists.Each(w.parts, Workload.Close)...)
}

// The rest of this file decides which part of a mixture each arrival of a stage belongs to: a pure function of the
// stage's seed and the arrival's index. So the split is the same with any number of agents, and an arrival that another
// agent takes over keeps its part.

// largestBlock is the largest number of arrivals in a block. A round number, because people ask for round numbers of
// requests: these then end with a block.
const largestBlock = 100

// mix divides the arrivals of a stage among parts by weight. It is immutable and may be used concurrently.
//
// Webster's method (package stripe) lays the parts out, and within each block the order is shuffled by the seed. So the
// split is exact at the end of each cycle of the weights (weights 7, 2 and 1 have a cycle of 10). At the end of each
// block of a longer cycle it is within half an arrival for each other part: Webster's numbers are quotients of the
// weights, rounded, so that what the others lack by rounding is at most that much. Without the shuffle, parts would
// repeat in step with the agents, or with the endpoints, which take arrivals in turn: one agent would send only one
// part.
type mix struct {
	pattern *schedule.Pattern
	block   uint64
	shuffle draw.Sequence
}

// newMix returns the mix of a stage. It returns an error as CheckWeights does.
func newMix(seed uint64, weights []float64) (*mix, error) {
	whole, err := wholeWeights(weights)
	if err != nil {
		return nil, err
	}
	pattern, err := schedule.NewPattern(whole, nil)
	if err != nil {
		return nil, errRange
	}
	return &mix{pattern: pattern, block: min(pattern.Cycle(), largestBlock), shuffle: draw.New(seed, "mix")}, nil
}

// Of returns the part that an arrival belongs to, and its number among the arrivals of that part, from 0. Each number
// belongs to one arrival; within a block, numbers are not in the order of the arrivals.
func (m *mix) Of(index uint64) (part int, number uint64) {
	start := index - index%m.block
	rank, number := m.pattern.Owner(start + m.shuffled(index/m.block, index%m.block))
	return int(rank), number
}

// shuffled returns place i of a block's order, by the "inside-out" form of Fisher and Yates's shuffle.
func (m *mix) shuffled(block, i uint64) uint64 {
	var order [largestBlock]uint8
	drawn := m.shuffle.Sub(block)
	for k := range m.block {
		j := drawn.Below(k, k+1)
		order[k] = order[j]
		order[j] = uint8(k)
	}
	return uint64(order[i])
}

// CheckWeights returns an error if weights are not positive numbers of at most four decimals, or are too far apart.
func CheckWeights(weights []float64) error {
	_, err := newMix(0, weights)
	return err
}

var errRange = errors.New("the weights are too far apart to be split exactly: their sum must be at most 1,048,576 " +
	"times their greatest common divisor")

// wholeWeights returns weights as whole numbers in the same proportion.
func wholeWeights(weights []float64) ([]uint32, error) {
	whole := make([]uint32, len(weights))
	for scale := 1.0; scale <= 10_000; scale *= 10 {
		if fits(whole, weights, scale) {
			return whole, nil
		}
	}
	for i, w := range weights {
		if !(w > 0) || math.Abs(w*10_000-math.Round(w*10_000)) > tolerance {
			return nil, fmt.Errorf("weight %d is %v: it must be a positive number of at most four decimals", i+1, w)
		}
	}
	return nil, errRange
}

// tolerance is how far a scaled weight may be from a whole number, because decimals are not exact in binary.
const tolerance = 1e-4

// fits sets the weights, multiplied by scale, and reports whether all are whole numbers.
func fits(whole []uint32, weights []float64, scale float64) bool {
	for i, w := range weights {
		scaled := math.Round(w * scale)
		if !(scaled > 0) || scaled > math.MaxUint32 || math.Abs(w*scale-scaled) > tolerance {
			return false
		}
		whole[i] = uint32(scaled)
	}
	return true
}
