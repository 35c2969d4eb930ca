package report

import (
	"fmt"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/table"
)

// ratesSection compares the rates of open loops with those of the plan, over the time in which requests started, and
// over the time until the last answer ended.
func ratesSection(stages []results.StageResult) table.Section {
	return sectionOf(stages, "Rates of open loops",
		"Over arrivals: from the first start to the last. In all: to the last end, with the drain.",
		[]string{"Stage", "Asked (req/s)", "Sent (req/s)", "Completed over arrivals (req/s)",
			"Tokens over arrivals (tok/s)", "Arrivals (s)", "Completed in all (req/s)", "In all (s)"},
		func(s results.StageResult, add func(...any)) {
			if a := s.Arrivals; a != nil && s.Load.Concurrency == nil {
				add(stageName(s), s.Load.Rate, &a.Rate, &a.RequestThroughput, a.OutputTokenThroughput, &a.DurationS,
					s.RequestThroughput, s.DurationS)
			}
		})
}

// reasoningSection returns when text and answers arrived, if that was later than the first token, and how many tokens
// were reasoning.
func reasoningSection(stages []results.StageResult) table.Section {
	return sectionOf(stages, "First text, reasoning and answers",
		"Times are mean / p99 in ms. To text: of requests whose first token had no text. To the answer: of requests that "+
			"streamed reasoning. Hidden: tokens that usage counts and no frame had.",
		[]string{"Stage", "TTFT", "To text (requests)", "To the answer (requests)", "Reasoning", "Reasoning tokens",
			"Of output (%)", "Hidden"},
		func(s results.StageResult, add func(...any)) {
			if s.Reasoning == nil && s.TTFTText == nil && s.TTFTAnswer == nil {
				return
			}
			tokens, hidden, share := (*uint64)(nil), (*uint64)(nil), (*float64)(nil)
			if r := s.Reasoning; r != nil {
				tokens, hidden = &r.Tokens, &r.Hidden
				if s.OutputTokens != nil && *s.OutputTokens > 0 {
					share = new(float64(r.Tokens) / float64(*s.OutputTokens))
				}
			}
			add(stageName(s), meanAndP99(s.TTFT), counted(s.TTFTText), counted(s.TTFTAnswer),
				meanAndP99(s.ReasoningTime), tokens, fixedPercent(share), hidden)
		})
}

// imagesSection returns how many images prompts have, and what they cost in tokens, of each stage and of the parts of
// its mixture.
func imagesSection(stages []results.StageResult) table.Section {
	return sectionOf(stages, "Images", "Tokens of an image: prompt tokens by usage beyond those asked for as text.",
		[]string{"Stage", "Images", "Tokens of an image"}, func(s results.StageResult, add func(...any)) {
			if i := s.Images; i != nil {
				add(stageName(s), i.Count, &i.TokensEach)
			}
			for _, p := range s.Parts {
				if i := p.Images; i != nil {
					add(partName(s, p), i.Count, &i.TokensEach)
				}
			}
		})
}

// endingsSection returns how answers ended, of each stage and of the parts of its mixture. There is no such section if
// a limit on tokens ended all of them.
func endingsSection(stages []results.StageResult) table.Section {
	varied := false
	all := sectionOf(stages, "How answers ended",
		"By the servers' finish reasons. Filtered: by a content filter, or refused. Aborted answers have failed; all others "+
			"are completed requests.",
		[]string{"Stage", "Stop", "Length", "Tool calls", "Filtered", "Other", "No reason", "Aborted"},
		func(s results.StageResult, add func(...any)) {
			row := func(name string, e *results.Endings) {
				if e != nil {
					varied = varied || *e != results.Endings{Length: e.Length}
					add(name, e.Stop, e.Length, e.ToolCalls, e.Filtered, e.Other, e.Unknown, e.Aborted)
				}
			}
			row(stageName(s), s.Endings)
			for _, p := range s.Parts {
				row(partName(s, p), p.Endings)
			}
		})
	if !varied {
		return table.Section{}
	}
	return all
}

// answersSection returns how many tool calls answers have, and how many answers have the form that requests demanded,
// of each stage and of the parts of its mixture.
func answersSection(stages []results.StageResult) table.Section {
	return sectionOf(stages, "Tool calls and answers in a form",
		"Of completed requests. A valid call names a tool that its request defines, and has a JSON object as arguments. A "+
			"valid answer has the form that its request demands, such as a JSON Schema; to a canary, it is that of the quiet "+
			"server.",
		[]string{"Stage", "Requests with tools", "Answered by calls", "Calls", "Valid calls (%)", "Answers checked",
			"Valid answers (%)"},
		func(s results.StageResult, add func(...any)) {
			row := func(name string, t *results.ToolCalls, a *results.CheckedAnswers) {
				if t == nil && a == nil {
					return
				}
				cells := []any{name, unknown, unknown, unknown, unknown, unknown, unknown}
				if t != nil {
					cells[1], cells[2], cells[3] = t.Requests, t.WithCalls, t.Calls
					cells[4] = fixedPercent(t.ValidShare)
				}
				if a != nil {
					cells[5], cells[6] = a.Checked, fixedPercent(a.ValidShare)
				}
				add(cells...)
			}
			row(stageName(s), s.Tools, s.Answers)
			if c := s.Canaries; c != nil {
				same := &results.CheckedAnswers{Checked: c.Load.Asked}
				if c.Load.DifferingShare != nil {
					same.ValidShare = new(1 - *c.Load.DifferingShare)
				}
				row(stageName(s)+", canaries", nil, same)
			}
			for _, p := range s.Parts {
				row(partName(s, p), p.Tools, p.Answers)
			}
		})
}

// partName names a part of a stage's mixture where rows are otherwise stages.
func partName(s results.StageResult, p results.PartResult) string {
	return stageName(s) + ", part " + p.Name
}

// meanAndP99 formats mean and p99 of a distribution.
func meanAndP99(d *histogram.Summary) string {
	if d == nil {
		return unknown
	}
	return fixed(&d.Mean) + " / " + fixed(&d.P99) + fewMark(d)
}

// fewMark returns the mark of a distribution's p99 beyond which fewer than ten values lie, or "".
func fewMark(d *histogram.Summary) string {
	if d.FewAt("p99") == nil {
		return ""
	}
	return results.OfFew
}

// counted formats mean and p99 of a distribution, with its number of values.
func counted(d *histogram.Summary) string {
	if d == nil {
		return unknown
	}
	return fmt.Sprintf("%s (%d)", meanAndP99(d), d.Count)
}

// sessionsSection returns how long sessions took as tasks, and what of it were requests and delays.
func sessionsSection(stages []results.StageResult) table.Section {
	return sectionOf(stages, "Sessions",
		"Times are mean / p99 in ms, of sessions all of whose requests completed: from the first start to the last end. "+
			"The critical path is the chain of requests that ended last, each of which waited for the one before; its "+
			"delays are those of tools and users.",
		[]string{"Stage", "Completed", "Broken", "Task", "Requests on the critical path", "Delays on the critical path"},
		func(s results.StageResult, add func(...any)) {
			if x := s.Sessions; x != nil {
				add(stageName(s), x.Completed, x.Broken, meanAndP99(x.Task), meanAndP99(x.TaskRequests),
					meanAndP99(x.TaskDelays))
			}
		})
}

// turnsSection returns how latency and the reuse of prefixes change over the turns of sessions.
func turnsSection(stages []results.StageResult) table.Section {
	return sectionOf(stages, "Turns of sessions",
		"Times are mean / p99 in ms, of completed requests. Shared: prompt tokens that an earlier request began with too, "+
			"by the workload. Cached: those that the server took from its prefix cache, by its usage.",
		[]string{"Stage", "Turn", "Requests", "TTFT", "E2E latency", "Prompt tokens of a request", "Shared (%)",
			"Cached (%)"},
		func(s results.StageResult, add func(...any)) {
			if s.Sessions == nil {
				return
			}
			for _, t := range s.Sessions.Turns {
				turn := fmt.Sprint(t.From)
				if t.To > t.From {
					turn = fmt.Sprintf("%d-%d", t.From, t.To)
				}
				var perRequest *float64
				if t.InputTokens != nil {
					perRequest = new(float64(*t.InputTokens) / float64(t.Completed))
				}
				add(stageName(s), turn, t.Completed, meanAndP99(t.TTFT), meanAndP99(t.E2E), perRequest,
					fixedPercent(t.PrefixCache.SharedShare), fixedPercent(t.PrefixCache.CachedShare))
			}
		})
}
