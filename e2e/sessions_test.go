package e2e

import (
	"math"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/e2e/programs"
)

const sessionsPlan = `
name: sessions
seed: 5
targets:
  - name: chat
    simulator: {endpoints: 3, decode_step: 1ms, decode_step_per_request: 10us, cache_blocks: 100000}
workloads:
  - name: steady
    sessions: {turns: 4, isl: 30, osl: 12, system: 20, play: {think_time: {mean: 40ms}}}
  - name: uneven
    sessions:
      turn_counts: {uniform: {min: 1, max: 6}}
      isl_lengths: {uniform: {min: 5, max: 40}}
      osl_lengths: {uniform: {min: 1, max: 9}}
      play: {history: server, think_time: {mean: 20ms, distribution: exponential}}
loads:
  - {workloads: [steady], concurrency: [6], sessions: 50, warmup: {requests: 4}}
  - {workloads: [uneven], rate: [40], sessions: 80}
`

// A session is a conversation with one endpoint, sent by one agent. Each turn includes the answers of the turns before,
// and comes one pause after the previous answer.
func TestSessionsBringTheServersAnswersAlong(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, sessionsPlan, "--agents", "3")
	r.MustExit(0)
	result, rows := r.Results(), r.Rows()
	for i, want := range []struct{ sessions, unmeasured int }{{54, 4}, {80, 0}} {
		stage, sessions := result.Stages[i], bySession(rows[uint32(i)])
		unmeasured := 0
		for index, turns := range sessions {
			checkSession(t, index, turns, 3)
			if turns[0].Unmeasured {
				unmeasured++
			}
		}
		if len(sessions) != want.sessions || unmeasured != want.unmeasured || !stage.Complete ||
			stage.Requests.Failed > 0 {
			t.Errorf("stage %d: %d sessions, %d of them unmeasured, complete %v, %+v", i, len(sessions), unmeasured,
				stage.Complete, stage.Requests)
		}
		if stage.ISL.Missed > 0 || stage.OSL.Missed > 0 || *stage.PrefixCache.SharedShare <= 0 {
			t.Errorf("stage %d: %d prompts and %d outputs missed their length; %v of the prompts is shared", i,
				stage.ISL.Missed, stage.OSL.Missed,
				*stage.PrefixCache.SharedShare)
		}
	}
	checkPauses(t, pauses(bySession(rows[0])), 3*54, 40*time.Millisecond, 0)
	// The standard deviation of an exponential pause is its mean.
	uneven := pauses(bySession(rows[1]))
	checkPauses(t, uneven, len(rows[1])-80, 20*time.Millisecond,
		4*20*time.Millisecond/time.Duration(math.Sqrt(float64(len(uneven)))))
}

// bySession groups rows by session, ordered by turn.
func bySession(rows []programs.Row) map[uint64][]programs.Row {
	sessions := map[uint64][]programs.Row{}
	for _, r := range rows {
		sessions[r.Index] = append(sessions[r.Index], r)
	}
	return sessions
}

// checkSession checks that a session's turns are consistent.
func checkSession(t *testing.T, index uint64, turns []programs.Row, endpoints uint64) {
	t.Helper()
	for k, r := range turns {
		if r.Turn != uint32(k) || r.Agent != turns[0].Agent || uint64(r.Endpoint) != index%endpoints ||
			r.Unmeasured != turns[0].Unmeasured {
			t.Fatalf("session %d: turn %d is %+v, the first is of agent %s", index, k, r, turns[0].Agent)
		}
		if *r.InputTokens != r.ISLAsked || *r.OutputTokens != r.OSLAsked {
			t.Errorf("session %d, turn %d: %d:%d tokens, %d:%d asked", index, k, *r.InputTokens, *r.OutputTokens,
				r.ISLAsked, r.OSLAsked)
		}
		if k == 0 {
			continue
		}
		before := turns[k-1]
		if history := *before.InputTokens + *before.OutputTokens; *r.InputTokens <= history ||
			r.ScheduledNs < before.EndNs {
			t.Errorf("session %d, turn %d: %d tokens after a history of %d; wanted at %d after an end at %d", index, k,
				*r.InputTokens, history,
				r.ScheduledNs, before.EndNs)
		}
	}
}

// pauses returns the times between the end of a turn and the scheduled time of the next.
func pauses(sessions map[uint64][]programs.Row) (all []time.Duration) {
	for _, turns := range sessions {
		for k := 1; k < len(turns); k++ {
			all = append(all, time.Duration(turns[k].ScheduledNs-turns[k-1].EndNs))
		}
	}
	return all
}

// checkPauses checks the number of pauses and their mean, and that constant pauses are equal.
func checkPauses(t *testing.T, all []time.Duration, count int, mean, tolerance time.Duration) {
	t.Helper()
	sum := time.Duration(0)
	for _, p := range all {
		sum += p
		if tolerance == 0 && p != mean {
			t.Errorf("a pause of %v, want %v", p, mean)
		}
	}
	if len(all) != count || count == 0 || (sum/time.Duration(count)-mean).Abs() > tolerance {
		t.Errorf("%d pauses of %v on the mean, want %d of %v", len(all), sum/time.Duration(max(1, len(all))),
			count, mean)
	}
}

// A slot of a closed loop pauses after each request. The next request is scheduled at the end of the pause.
func TestThinkTimeOfAClosedLoop(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, `
name: rests
targets:
  - {name: one, simulator: {decode_step: 1ms}}
workloads:
  - random: {isl: 10, osl: 3}
loads:
  - {concurrency: [1], requests: 40, think_time: {mean: 7ms}}
`, "--agents", "1")
	r.MustExit(0)
	rows := r.Rows()[0]
	if len(rows) != 40 {
		t.Fatalf("%d requests", len(rows))
	}
	for i := 1; i < len(rows); i++ {
		if rest := time.Duration(rows[i].ScheduledNs - rows[i-1].EndNs); rest != 7*time.Millisecond {
			t.Errorf("request %d is wanted %v after the end of the one before", i, rest)
		}
	}
}

const brokenSessionsPlan = `
name: thinking-and-failing
seed: 5
targets:
  - name: thinking
    simulator: {decode_step: 1ms, reasoning_tokens: 7, cache_blocks: 100000}
  - name: failing
    simulator: {decode_step: 1ms, error_share: 0.2}
workloads:
  - sessions: {turns: 4, isl: 30, osl: 12, system: 20, play: {}}
loads:
  - {concurrency: [3], sessions: 25}
`

// Reasoning is not sent back, so later prompts are shorter by it: they have the length that is expected of them, and
// the server's cache has no more of them than is known to be shared. Turns after one that failed are no fault of the
// agents.
func TestSessionsOfReasonersAndOfServersThatFail(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, brokenSessionsPlan)
	r.MustExit(0) // a verdict does not fail runs of tests
	result, rows := r.Results(), r.Rows()
	thinking, failing := result.Stages[0], result.Stages[1]
	if thinking.ISL.Missed > 0 || thinking.OSL.Missed > 0 || verdictOf(thinking, "isl") != trust.Valid ||
		verdictOf(thinking, "prefix_cache") != trust.Valid {
		t.Errorf("%d prompts missed their length, %d outputs; checks %+v", thinking.ISL.Missed, thinking.OSL.Missed,
			thinking.Trust.Checks)
	}
	for _, row := range rows[0] {
		// The system prompt, and for each earlier turn what the user said and the answer without its reasoning.
		if want := uint64(20 + 30 + row.Turn*(30+12-7)); row.ISLAsked != want || *row.InputTokens != want {
			t.Errorf("turn %d of session %d: %d tokens expected, %d sent, want %d", row.Turn, row.Index, row.ISLAsked,
				*row.InputTokens, want)
		}
	}
	q := failing.Requests
	if q.Failed == 0 || *q.AfterFailure == 0 || *q.AfterFailure != *q.NeverSent || *q.NeverSent+q.Started != 100 ||
		verdictOf(failing, "never_sent") != trust.Valid || verdictOf(failing, "broken_sessions") != trust.Invalid {
		t.Errorf("requests %+v, %d after a failure; checks %+v", q, *q.AfterFailure, failing.Trust.Checks)
	}
}

// verdictOf returns the verdict of a stage's check.
func verdictOf(s results.StageResult, name string) trust.Verdict {
	for _, c := range s.Trust.Checks {
		if c.Name == name {
			return c.Verdict
		}
	}
	return ""
}
