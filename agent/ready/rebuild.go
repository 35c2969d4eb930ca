package ready

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/schedule"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/store"
)

// Rebuild makes a stage of a run again from its record, for its schedule and its requests: it asks no server, and has
// the arrivals of all agents. Rows of datasets must be in a directory. The caller must close the stage.
func Rebuild(run string, rec *spatev1.StageRecord, datasets string) (*Stage, error) {
	s := &Stage{Assigned: proto.CloneOf(rec.GetStage()), run: run, found: rec.GetFound(),
		Preparation: rec.GetFound().GetPreparation(), Variants: content.Variants(rec.GetStage().GetWorkload())}
	t := s.Target() // nothing is sent, and what keeps a body secret is not known
	t.ApiKey, t.Headers, t.Connection = "", nil, nil
	if err := s.rebuild(datasets); err != nil {
		s.Close()
		return nil, err
	}
	if s.Open != nil && rec.MeasuredFromNs != nil {
		s.Open.Measure(time.Duration(rec.GetMeasuredFromNs()))
	}
	return s, nil
}

// errNotHere ends the search for rows that only a coordinator has.
var errNotHere = errors.New("its rows are not on this machine")

func (s *Stage) rebuild(datasets string) error {
	here, cancel := context.WithCancelCause(context.Background())
	cancel(errNotHere)
	err := s.openRows(here, &store.Fetcher{Dir: datasets})
	if err != nil {
		return err
	}
	if s.Part, err = schedule.NewShare(&spatev1.Stripe{Weights: []uint32{1}}); err != nil {
		return err
	}
	if s.Assigned.GetLoad().GetConcurrency() == 0 {
		if s.Open, err = s.newOpen(); err != nil {
			return err
		}
	}
	config, err := s.clientConfig(nil)
	if err != nil {
		return err
	}
	if err := s.newClient(s.settled(config)); err != nil {
		return err
	}
	return s.makeContent()
}

// settled adds to a configuration what is known about the target.
func (s *Stage) settled(config stream.Config) stream.Config {
	config.RunningUsage, config.ExactOutput = s.Preparation.GetRunningUsage(), s.Preparation.GetExactOutput()
	for _, name := range s.Preparation.GetLeftOut() {
		config.Body[name] = nil
	}
	return config
}

// Body makes the body of a request whose prompt has no answers of the server, as it is sent.
func (s *Stage) Body(index uint64, turn int) (body []byte, ask workload.Spec, err error) {
	if ask, err = s.Content.Spec(index, turn); err != nil {
		return nil, ask, err
	}
	body = s.Client.AppendVariant(nil, ask.Variant, ask.OSL, func(dst []byte) []byte {
		dst, err = s.Content.AppendPrompt(dst, workload.Request{Index: index, Turn: turn, Form: s.Client.Form()})
		return dst
	})
	if fielder, ok := s.Content.(workload.Fielder); ok && ask.Fields && err == nil {
		body, err = fielder.AppendFields(body, index, turn)
	}
	s.Client.Lengths(&ask.ISL, &ask.OSL)
	return body, ask, err
}

// Due returns when the arrivals of an open loop are due, by index. Nil: the load is a closed loop.
func (s *Stage) Due() map[uint64]time.Duration {
	if s.Open == nil {
		return nil
	}
	due := map[uint64]time.Duration{}
	for a, more := s.Open.Next(); more; a, more = s.Open.Next() {
		due[a.Index] = a.Offset
	}
	return due
}
