package script

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// stream separates this package's draws from others with the same seed.
const stream = 0x746f7274757265

// NewDice returns the dice of a seed. Place 0 is the script's own; others may use other places.
func NewDice(seed, place uint64) Dice { return Dice{rand.New(rand.NewPCG(seed, stream+place))} }

// Draw returns the script of a seed. It is always the same, as long as this file does not change.
func Draw(seed uint64) Script {
	d := NewDice(seed, 0)
	s := Script{
		Seed: seed, Messages: d.Chance(0.2), Policy: pick(d, "fail", "degrade", "reassign"),
		Lease:   d.Between(6*time.Second, 12*time.Second, time.Second),
		Records: pick(d, "jsonl", "parquet"), OutputTokens: 4 + d.IntN(17),
		Step: d.Between(4*time.Millisecond, 15*time.Millisecond, time.Millisecond),
	}
	s.drawAgents(d)
	s.drawLoads(d)
	if s.Messages {
		s.Dup, s.Hold, s.Lose = d.Float64()/2, d.Float64()/2, d.Float64()/4
		if d.Chance(0.15) {
			s.Faults = []Fault{{Kind: FullDisk, At: d.Between(0, s.Length(), step)}}
		}
		return s
	}
	s.drawFaults(d)
	return s
}

// Dice draws random values. It is not safe for concurrent use.
type Dice struct{ *rand.Rand }

// Chance reports true with probability p.
func (d Dice) Chance(p float64) bool { return d.Float64() < p }

// Between draws a time from a grid, both ends included.
func (d Dice) Between(from, to, step time.Duration) time.Duration {
	return from + time.Duration(d.IntN(int((to-from)/step)+1))*step
}

func pick[T any](d Dice, from ...T) T { return from[d.IntN(len(from))] }

func (s *Script) drawAgents(d Dice) {
	s.Regions = d.Chance(0.3)
	for i := range 2 + d.IntN(4) {
		a := Agent{Name: AgentName(i), Weight: 1 + d.IntN(3), Region: []string{"eu", "us"}[i%2]}
		if d.Chance(0.3) {
			a.Skew = d.Between(time.Second, 100*time.Hour, time.Second)
		}
		s.Agents = append(s.Agents, a)
	}
}

func (s *Script) drawLoads(d Dice) {
	length := d.Between(8*time.Second, 20*time.Second, time.Second)
	if s.Messages {
		length = d.Between(4*time.Second, 8*time.Second, time.Second)
	}
	if d.Chance(0.3) {
		first := (length / 2).Truncate(time.Second)
		s.Loads = append(s.Loads, s.drawLoad(d, first))
		length -= first
	}
	l := s.drawLoad(d, length)
	if len(s.Loads) > 0 && l.Rate == s.Loads[0].Rate &&
		l.Concurrency == s.Loads[0].Concurrency { // a plan has each load point once
		l.Rate, l.Concurrency = l.Rate+min(l.Rate, 1), l.Concurrency+min(l.Concurrency, 1)
	}
	s.Loads = append(s.Loads, l)
}

// drawLoad draws a load that lasts about that long.
func (s *Script) drawLoad(d Dice, length time.Duration) Load {
	l := Load{For: length}
	var perSecond float64
	if d.Chance(0.5) {
		l.Rate, l.Arrival = 20+d.IntN(61), pick(d, "constant", "poisson")
		perSecond = float64(l.Rate)
	} else {
		l.Concurrency = len(s.Agents) + d.IntN(12)
		answer := time.Duration(s.OutputTokens+1) * (s.Step + time.Millisecond)
		perSecond = float64(l.Concurrency) / answer.Seconds()
	}
	if d.Chance(0.5) {
		l.Requests = int(perSecond * length.Seconds())
	}
	if d.Chance(0.3) {
		l.Warmup = 1 + d.IntN(20)
	}
	return l
}

// drawFaults draws a few faults. Half of the scripts have only faults that every policy survives, so that much is
// promised. The others may have any faults.
func (s *Script) drawFaults(d Dice) {
	gentle := d.Chance(0.5)
	for range 1 + d.IntN(4) {
		f := Fault{At: d.Between(0, s.Length()+2*time.Second, 50*time.Millisecond), Agent: d.IntN(len(s.Agents))}
		if gentle {
			f.drawGentle(d, s.gentle())
		} else {
			f.drawAny(d, s.Lease)
		}
		if f.Kind != FullDisk || !slices.ContainsFunc(s.Faults, func(g Fault) bool { return g.Kind == FullDisk }) {
			s.Faults = append(s.Faults, f)
		}
	}
	slices.SortStableFunc(s.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
}

// step is the grid of the durations of faults.
const step = 50 * time.Millisecond

// gentle returns how long an agent may be disconnected at no cost.
func (s *Script) gentle() time.Duration {
	if s.Policy == "fail" {
		return unharmed.Truncate(step)
	}
	return (s.LeaseOf() - comeBack - step).Truncate(step)
}

// drawGentle draws a fault that costs nothing if it is the only one for a while.
func (f *Fault) drawGentle(d Dice, longest time.Duration) {
	switch f.Kind = pick(d, KillCoordinator, KillCoordinator, Partition, StopAgent, Reset, SlowLink, DelayLink,
		SlowTarget); f.Kind {
	case KillCoordinator:
		f.For = d.Between(200*time.Millisecond, max(longest, 2*time.Second), step)
	case Partition, StopAgent:
		f.For = d.Between(500*time.Millisecond, longest, step)
	default:
		f.drawRest(d)
	}
}

// drawAny draws any fault.
func (f *Fault) drawAny(d Dice, lease time.Duration) {
	f.Kind = pick(d, KillAgent, KillAgent, KillAgent, KillCoordinator, KillCoordinator, KillCoordinator, StopAgent,
		StopAgent, Partition, Partition,
		Partition, Reset, SlowLink, DelayLink, SlowTarget, FullDisk)
	switch f.Kind {
	case KillAgent:
		if d.Chance(0.6) {
			f.For = d.Between(200*time.Millisecond, 3*time.Second, step)
		}
	case KillCoordinator:
		f.For = d.Between(200*time.Millisecond, 5*time.Second, step)
		if d.Chance(0.15) {
			f.For = lease + d.Between(time.Second, 4*time.Second, step)
		}
	case StopAgent:
		f.For = d.Between(time.Second, 15*time.Second, step)
	case Partition:
		f.For = d.Between(500*time.Millisecond, 20*time.Second, step)
	default:
		f.drawRest(d)
	}
}

// drawRest draws the details of a fault of a link or the target.
func (f *Fault) drawRest(d Dice) {
	switch f.Kind {
	case SlowLink:
		f.For, f.Bytes = d.Between(2*time.Second, 10*time.Second, step), 6<<10+d.IntN(64<<10)
	case DelayLink:
		f.For, f.Delay = d.Between(2*time.Second, 10*time.Second, step),
			d.Between(20*time.Millisecond, 300*time.Millisecond, 10*time.Millisecond)
		f.Jitter = f.Delay / 4
	case SlowTarget:
		f.For, f.Delay = d.Between(time.Second, 6*time.Second, step),
			d.Between(20*time.Millisecond, 200*time.Millisecond, 10*time.Millisecond)
		f.Jitter = f.Delay / 4
	}
}
