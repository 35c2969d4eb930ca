package report

import (
	"fmt"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/report/section"
)

// ratesSection compares the rates of open loops with those of the plan, over the time in which requests started, and
// over the time until the last answer ended.
func ratesSection(stages []results.StageResult) section.Section {
	var rows [][]string
	for _, s := range stages {
		if a := s.Arrivals; a != nil && s.Load.Concurrency == nil {
			rows = append(rows, []string{
				stageName(s), fixed(s.Load.Rate), fixed(&a.Rate), fixed(&a.RequestThroughput),
				fixed(a.OutputTokenThroughput), fixed(&a.DurationS),
				fixed(s.RequestThroughput), fixed(s.DurationS),
			})
		}
	}
	if len(rows) == 0 {
		return section.Section{}
	}
	return section.New("Rates of open loops",
		section.Text("Over arrivals: from the first start to the last. In all: to the last end, with the drain."),
		section.Table([]string{"Stage", "Asked (req/s)", "Sent (req/s)", "Completed over arrivals (req/s)",
			"Tokens over arrivals (tok/s)", "Arrivals (s)", "Completed in all (req/s)", "In all (s)"}, rows))
}

// reasoningSection returns when text and answers arrived, if that was later than the first token, and how many tokens
// were reasoning.
func reasoningSection(stages []results.StageResult) section.Section {
	var rows [][]string
	for _, s := range stages {
		if s.Reasoning == nil && s.TTFTText == nil && s.TTFTAnswer == nil {
			continue
		}
		tokens, hidden, share := unknown, unknown, unknown
		if r := s.Reasoning; r != nil {
			tokens, hidden = fmt.Sprint(r.Tokens), fmt.Sprint(r.Hidden)
			if s.OutputTokens != nil && *s.OutputTokens > 0 {
				share = fixedPercent(new(float64(r.Tokens) / float64(*s.OutputTokens)))
			}
		}
		rows = append(rows, []string{
			stageName(s), meanAndP99(s.TTFT), counted(s.TTFTText), counted(s.TTFTAnswer), meanAndP99(s.ReasoningTime),
			tokens, share, hidden,
		})
	}
	if len(rows) == 0 {
		return section.Section{}
	}
	return section.New("First text, reasoning and answers",
		section.Text("Times are mean / p99 in ms. To text: of requests whose first token had no text. To the answer: of "+
			"requests that streamed reasoning. Hidden: tokens that usage counts and no frame had."),
		section.Table([]string{"Stage", "TTFT", "To text (requests)", "To the answer (requests)", "Reasoning",
			"Reasoning tokens", "Of output (%)", "Hidden"}, rows))
}

// imagesSection returns how many images prompts have, and what they cost in tokens, of each stage and of the parts of
// its mixture.
func imagesSection(stages []results.StageResult) section.Section {
	var rows [][]string
	add := func(name string, i *results.Images) {
		if i != nil {
			rows = append(rows, []string{name, fmt.Sprint(i.Count), fixed(&i.TokensEach)})
		}
	}
	for _, s := range stages {
		add(stageName(s), s.Images)
		for _, p := range s.Parts {
			add(partName(s, p), p.Images)
		}
	}
	if len(rows) == 0 {
		return section.Section{}
	}
	return section.New("Images", section.Text("Tokens of an image: prompt tokens by usage beyond those asked for as text."),
		section.Table([]string{"Stage", "Images", "Tokens of an image"}, rows))
}

// endingsSection returns how answers ended, of each stage and of the parts of its mixture. There is no such section if
// a limit on tokens ended all of them.
func endingsSection(stages []results.StageResult) section.Section {
	var rows [][]string
	varied := false
	add := func(name string, e *results.Endings) {
		if e == nil {
			return
		}
		varied = varied || *e != results.Endings{Length: e.Length}
		row := []string{name}
		for _, n := range []uint64{e.Stop, e.Length, e.ToolCalls, e.Filtered, e.Other, e.Unknown, e.Aborted} {
			row = append(row, fmt.Sprint(n))
		}
		rows = append(rows, row)
	}
	for _, s := range stages {
		add(stageName(s), s.Endings)
		for _, p := range s.Parts {
			add(partName(s, p), p.Endings)
		}
	}
	if !varied {
		return section.Section{}
	}
	return section.New("How answers ended",
		section.Text("By the servers' finish reasons. Filtered: by a content filter, or refused. Aborted answers have failed; "+
			"all others are completed requests."),
		section.Table([]string{"Stage", "Stop", "Length", "Tool calls", "Filtered", "Other", "No reason", "Aborted"}, rows))
}

// answersSection returns how many tool calls answers have, and how many answers have the form that requests demanded,
// of each stage and of the parts of its mixture.
func answersSection(stages []results.StageResult) section.Section {
	var rows [][]string
	add := func(name string, t *results.ToolCalls, a *results.CheckedAnswers) {
		if t == nil && a == nil {
			return
		}
		row := []string{name, unknown, unknown, unknown, unknown, unknown, unknown}
		if t != nil {
			row[1], row[2], row[3], row[4] = fmt.Sprint(t.Requests), fmt.Sprint(t.WithCalls), fmt.Sprint(t.Calls),
				fixedPercent(t.ValidShare)
		}
		if a != nil {
			row[5], row[6] = fmt.Sprint(a.Checked), fixedPercent(a.ValidShare)
		}
		rows = append(rows, row)
	}
	for _, s := range stages {
		add(stageName(s), s.Tools, s.Answers)
		for _, p := range s.Parts {
			add(partName(s, p), p.Tools, p.Answers)
		}
	}
	if len(rows) == 0 {
		return section.Section{}
	}
	return section.New("Tool calls and answers in a form",
		section.Text("Of completed requests. A valid call names a tool that its request defines, and has a JSON object as "+
			"arguments. A valid answer has the form that its request demands, such as a JSON Schema."),
		section.Table([]string{"Stage", "Requests with tools", "Answered by calls", "Calls", "Valid calls (%)",
			"Answers checked", "Valid answers (%)"}, rows))
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
	return fixed(&d.Mean) + " / " + fixed(&d.P99)
}

// counted formats mean and p99 of a distribution, with its number of values.
func counted(d *histogram.Summary) string {
	if d == nil {
		return unknown
	}
	return fmt.Sprintf("%s (%d)", meanAndP99(d), d.Count)
}
