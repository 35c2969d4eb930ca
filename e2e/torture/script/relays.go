package script

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Faults of relays and of their links to the coordinator.
const (
	KillRelay  Kind = "kill-relay"  // SIGKILL; For: until it is restarted
	CutRelay   Kind = "cut-relay"   // no bytes either way for For
	ResetRelay Kind = "reset-relay" // all connections
)

// Relay is a relay of a script.
type Relay struct {
	// Skew is how far its clocks since boot are ahead.
	Skew time.Duration
}

// relayPlace is the place of the dice for relays, so that a seed's other draws are those of Draw.
const relayPlace = 1 << 32

// relayUnharmed is how long a relay may be dead without any of its agents being taken for lost: its start and its
// estimate of the clock come on top, and the pauses after which agents try again.
const relayUnharmed = 300 * time.Millisecond

// DrawRelayed returns the script of a seed with relays between some of its agents and the coordinator, and faults of
// the relays beside its own. It is about processes: a script of messages gets faults of processes instead.
func DrawRelayed(seed uint64) Script {
	s, d := Draw(seed), NewDice(seed, relayPlace)
	if s.Messages {
		s.Messages, s.Dup, s.Hold, s.Lose, s.Faults = false, 0, 0, 0, nil
		s.drawFaults(d)
	}
	for range 1 + d.IntN(2) {
		s.Relays = append(s.Relays, Relay{Skew: d.Between(0, 100*time.Hour, time.Second)})
	}
	s.Agents[0].Relay = 1
	for i := range s.Agents[1:] {
		s.Agents[i+1].Relay = d.IntN(len(s.Relays) + 1)
	}
	gentle := d.Chance(0.5)
	for range 1 + d.IntN(2) {
		s.Faults = append(s.Faults, s.drawRelayFault(d, gentle))
	}
	slices.SortStableFunc(s.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return s
}

// drawRelayFault draws a fault of a relay, a gentle one if it must cost nothing.
func (s *Script) drawRelayFault(d Dice, gentle bool) Fault {
	f := Fault{
		At: d.Between(0, s.Length()+2*time.Second, step), Kind: pick(d, KillRelay, KillRelay, CutRelay, ResetRelay),
		Relay: 1 + d.IntN(len(s.Relays)),
	}
	longest := 12 * time.Second
	if gentle {
		longest = s.gentle()
		if s.Policy == "fail" && f.Kind == KillRelay {
			longest = relayUnharmed
		}
	}
	if f.Kind != ResetRelay {
		f.For = d.Between(100*time.Millisecond, longest, step)
	}
	return f
}

// OfRelay reports whether the fault affects the agents of one relay.
func (f Fault) OfRelay() bool {
	return f.Kind == KillRelay || f.Kind == CutRelay || f.Kind == ResetRelay
}

// hits reports whether a fault affects an agent.
func (s Script) hits(f Fault, agent int) bool {
	switch {
	case f.OfRelay():
		return s.Agents[agent].Relay == f.Relay
	case f.OfAgent():
		return f.Agent == agent
	}
	return true
}

// RelayName returns the name of a relay by its number, from 1.
func RelayName(number int) string { return fmt.Sprintf("relay-%d", number) }
