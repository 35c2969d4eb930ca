package report

import (
	"strings"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/sink"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/report/headline"
	"github.com/spate-load/spate/report/page"
)

// eventsOf returns what happened during a run other than the start and the end of stages: warnings, and agents that
// were lost or joined.
func eventsOf(l *ledger.Ledger, run *spatev1.RunRecord) (events []page.Event, err error) {
	err = l.Events(0, func(e *spatev1.FollowRunResponse) error {
		p, ok := points.Event(points.Run{ID: run.GetRunId()}, e.GetEvent(), func(uint32) *spatev1.Stage { return nil })
		if !ok || p.Kind != sink.Warning && p.Kind != sink.AgentLost && p.Kind != sink.AgentJoined {
			return nil
		}
		at := p.Time.Sub(run.GetBeginTime().AsTime()).Seconds()
		events = append(events, page.Event{At: max(at, 0), Text: p.Text})
		return nil
	})
	return events, err
}

// pageOf returns what the page of a result shows, besides what in has.
func pageOf(r *results.Result, in page.Input) (page.Input, error) {
	k := r.Run.TimeCompression
	r = results.InPlanTime(r)
	details, err := detailsOf(r)
	if err != nil {
		return in, err
	}
	in.Result, in.Overview, in.Thresholds, in.Details = r, headline.Overview(r), thresholdsSection(r), details
	if k != nil {
		in.Simulation = compressed(*k)
	}
	recorded := make(map[uint32]*page.Recording)
	for i, s := range r.Ran() {
		recorded[s.Index] = in.Recordings[i]
	}
	for _, g := range gridsOf(r) {
		group := page.Group{Title: g.title(), LoadHeader: g.loadHeader(), OpenLoop: g.openLoop,
			Conclusions: g.conclusions(), Series: g.series}
		notes := &once{}
		for _, s := range g.stages {
			row := pageRow(s, notes)
			row.Recording = recorded[s.Index]
			group.Rows = append(group.Rows, row)
		}
		in.Groups = append(in.Groups, group)
	}
	return in, nil
}

// pageRow returns a stage as a row of the page. It does not repeat what the notes of other rows have said.
func pageRow(s results.StageResult, notes *once) page.Row {
	row := page.Row{Stage: s, Load: strings.TrimSuffix(loadCell(s), " !"), Value: s.Load.Value()}
	if note := noteOf(s, notes); note != "" {
		row.Note = s.Load.String() + ": " + note
	}
	return row
}
