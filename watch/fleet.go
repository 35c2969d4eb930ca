package watch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// State returns the state of a run in a word. For a run that has ended, it says how.
func State(r *spatev1.RunSummary) string {
	switch {
	case r.GetState() != spatev1.RunState_RUN_STATE_ENDED:
		return wordOf(r.GetState(), "RUN_STATE_")
	case r.GetOutcome() == spatev1.Outcome_OUTCOME_DONE && !r.GetComplete():
		return "incomplete"
	}
	return Outcome(r.GetOutcome())
}

// Outcome says how a run ended, in a word.
func Outcome(o spatev1.Outcome) string { return wordOf(o, "OUTCOME_") }

// wordOf returns a value of the protocol in a word, n/a for none.
func wordOf(value fmt.Stringer, prefix string) string {
	if word := strings.TrimPrefix(value.String(), prefix); word != "UNSPECIFIED" {
		return strings.ToLower(word)
	}
	return Unknown
}

// Runs lists runs in their order, with times of day in a location. If any of them waits, there are columns about how
// long, and for which run.
func Runs(runs []*spatev1.RunSummary, now time.Time, in *time.Location) *table.Table {
	t := table.New(table.Words("run", "state", "began"), table.Numbers("time", "stages"), table.Words("verdict", "by"))
	for _, r := range runs {
		stages := words.Thousands(uint64(r.GetStagesEnded())) + "/" + words.Thousands(uint64(r.GetStages()))
		if r.GetState() == spatev1.RunState_RUN_STATE_RUNNING && r.GetStages() == 0 {
			stages = "in progress" // another process has the ledger
		}
		t.Add(Clean(r.GetRunId()), State(r), when(r.GetBeginTime(), in, "2006-01-02 15:04"), lasted(r, now), stages,
			Clean(cmp.Or(r.GetVerdict(), Unknown)), Clean(cmp.Or(r.GetSubmitter(), Unknown)),
		).Colour = colourOf(r.GetVerdict())
	}
	if slices.ContainsFunc(runs, func(r *spatev1.RunSummary) bool { return r.GetPlace() > 0 }) {
		t.Columns = slices.Concat(t.Columns, table.Words("waits for"))
		for i, r := range runs {
			t.Rows[i].Add(Clean(cmp.Or(waitsFor(r), Unknown)))
		}
	}
	return t
}

// waitsFor names the first run that a run waits for, and says how many more there are.
func waitsFor(r *spatev1.RunSummary) string {
	switch all := r.GetWaitsFor(); len(all) {
	case 0:
		return ""
	case 1:
		return all[0]
	default:
		return fmt.Sprintf("%s and %d more", all[0], len(all)-1)
	}
}

// RunsLong is Runs with columns about who submitted a run, when and from where, with which priority, why it waits or
// ended early, and who stopped it.
func RunsLong(runs []*spatev1.RunSummary, now time.Time, in *time.Location) *table.Table {
	t := Runs(runs, now, in)
	t.Columns = slices.Concat(t.Columns, table.Words("from", "submitted"), table.Numbers("priority"),
		table.Words("plan", "stopped by", "reason"))
	for i, r := range runs {
		t.Rows[i].Add(Clean(cmp.Or(r.GetSubmitterAddress(), Unknown)), when(r.GetSubmitTime(), in, time.DateTime),
			fmt.Sprint(r.GetPriority()), Clean(cmp.Or(r.GetPlan(), Unknown)), Clean(cmp.Or(r.GetStopper(), Unknown)),
			Clean(cmp.Or(r.GetReason(), r.GetWaitsBecause(), Unknown)))
	}
	return t
}

// when formats a time in a location, n/a if it is not known.
func when(t *timestamppb.Timestamp, in *time.Location, layout string) string {
	if t == nil {
		return Unknown
	}
	return t.AsTime().In(in).Format(layout)
}

// lasted returns how long a run took, or has taken so far.
func lasted(r *spatev1.RunSummary, now time.Time) string {
	begin, end := r.GetBeginTime(), r.GetEndTime()
	switch {
	case begin == nil:
		return Unknown
	case end != nil:
		now = end.AsTime()
	case r.GetState() != spatev1.RunState_RUN_STATE_RUNNING:
		return Unknown
	}
	return Span(max(0, now.Sub(begin.AsTime())))
}

// Fleet lists agents in their order.
func Fleet(agents []*spatev1.AgentStatus) *table.Table {
	t := table.New(table.Words("agent", "region", "health"),
		table.Numbers("weight", "cores", "streams", "in flight", "CPU", "clock"), table.Words("labels"),
		table.Numbers("exact to"), table.Words("host", "version"))
	for _, s := range agents {
		a, h := s.GetAgent(), s.GetHeartbeat()
		inFlight, cpu, clock := Unknown, Unknown, Unknown
		if h != nil {
			inFlight, cpu = words.Thousands(uint64(h.GetInFlight())), fmt.Sprintf("%.2f", h.GetCpuCores())
			if h.GetClockUncertaintyNs() > 0 {
				clock = "±" + time.Duration(h.GetClockUncertaintyNs()).Round(time.Microsecond).String()
			}
		}
		row := t.Add(Clean(cmp.Or(a.GetName(), Unknown)), Clean(cmp.Or(a.GetRegion(), Unknown)), health(s),
			positive(a.GetWeight()), positive(a.GetCores()), positive(a.GetMaxStreams()), inFlight, cpu, clock,
			Clean(cmp.Or(strings.Join(naming.LabelTexts(a.GetLabels()), " "), Unknown)), exactTo(a.GetCapacity()),
			Clean(cmp.Or(a.GetHost(), Unknown)), Clean(cmp.Or(a.GetVersion(), Unknown)))
		switch s.GetHealth() {
		case spatev1.AgentHealth_AGENT_HEALTH_SILENT, spatev1.AgentHealth_AGENT_HEALTH_MISSING:
			row.Colour = table.Bad
		}
	}
	return t
}

// exactTo says up to which load a machine's times were exact: "1,000 at 50,000/s".
func exactTo(c *spatev1.Capacity) string {
	if c.GetStreams() == 0 {
		return Unknown
	}
	return words.Thousands(uint64(c.GetStreams())) + " at " + words.Whole(c.GetFramesPerSecond()) + "/s"
}

// Cordon returns in a word that an agent takes no new runs. Empty: it does.
func Cordon(c spatev1.Cordon) string { return strings.TrimSuffix(wordOf(c, "CORDON_"), Unknown) }

// health returns an agent's health, how long one that is silent or missing has not been heard, and whether it takes no
// new runs.
func health(s *spatev1.AgentStatus) string {
	text := Health(s.GetHealth())
	if s.GetHealth() == spatev1.AgentHealth_AGENT_HEALTH_SILENT ||
		s.GetHealth() == spatev1.AgentHealth_AGENT_HEALTH_MISSING && s.GetSilentFor() != nil {
		text += " " + words.Span(s.GetSilentFor().AsDuration().Round(100*time.Millisecond).Seconds())
	}
	if c := Cordon(s.GetCordon()); c != "" {
		text += ", " + c
	}
	return text
}

// Health returns an agent's health in a word.
func Health(h spatev1.AgentHealth) string { return wordOf(h, "AGENT_HEALTH_") }

func positive(n uint32) string {
	if n == 0 {
		return Unknown
	}
	return words.Thousands(uint64(n))
}
