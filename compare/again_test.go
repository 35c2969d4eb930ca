package compare

import (
	"fmt"
	"testing"
)

// claimsOf runs a setting, and then again on an engine that is slower by a share, until it is clear whether the claim
// holds. It counts the outcomes, and all rounds.
func claimsOf(t *testing.T, s setting, by float64) (outcomes map[Outcome]int, rounds int) {
	outcomes = map[Outcome]int{}
	for i := range uint64(*pairs) {
		claim, again := Side{Name: "claim", Runs: []*Run{s.run(100*i+1, 0)}}, Side{Name: "again"}
		for n := uint64(1); n <= MostRounds; n++ {
			one := s.run(100*i+1+n, by)
			one.Result.Run.ID = fmt.Sprint(n)
			again.Runs = append(again.Runs, one)
			rounds++
			if n < FewestRounds {
				continue
			}
			c, err := Of([]Side{claim, again}, Options{Tolerance: 0.015, Again: true})
			if err != nil {
				t.Fatal(err)
			}
			if against := &c.Sides[0]; !against.Open() || n == MostRounds {
				outcomes[against.Stages[0].Claim().Outcome]++
				break
			}
		}
	}
	return outcomes, rounds
}

// A claim holds on the engine that it was measured on, and not on one that is 3 % slower: the table in docs/audit.md.
func TestClaims(t *testing.T) {
	for _, s := range settings {
		same, rounds := claimsOf(t, s, 0)
		slow, slowRounds := claimsOf(t, s, 0.03)
		t.Logf("| %s | %d of %d | %d | %.1f | %d of %d | %d | %.1f |", s.name, same[Same], *pairs, same[Worse]+same[Better],
			float64(rounds)/float64(*pairs), slow[Worse], *pairs, slow[Same], float64(slowRounds)/float64(*pairs))
		most := allowed(*pairs)
		if wrong := same[Worse] + same[Better]; wrong > most {
			t.Errorf("%s: the same engine is refused %d times", s.name, wrong)
		}
		if slow[Same] > most {
			t.Errorf("%s: an engine 3 %% slower is accepted %d times", s.name, slow[Same])
		}
		if s.name == settings[0].name && min(same[Same], slow[Worse]) < *pairs*95/100-1 {
			t.Errorf("%s: %v, slower %v", s.name, same, slow)
		}
	}
}
