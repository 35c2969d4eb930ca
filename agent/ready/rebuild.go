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
func Rebuild(run string, rec *spatev1.StageRecord, datasets string) (s *Stage, err error) {
	s = &Stage{Assigned: proto.CloneOf(rec.GetStage()), run: run, found: rec.GetFound(),
		Preparation: rec.GetFound().GetPreparation(), Variants: content.Variants(rec.GetStage().GetWorkload())}
	t := s.Target() // nothing is sent, and what keeps a body secret is not known
	t.ApiKey, t.Headers, t.Connection = "", nil, nil
	here, cancel := context.WithCancelCause(context.Background())
	cancel(errNotHere)
	if err = s.openRows(here, &store.Fetcher{Dir: datasets}); err == nil {
		s.Part, err = schedule.NewShare(&spatev1.Stripe{Weights: []uint32{1}})
	}
	if err == nil && s.Assigned.GetLoad().GetConcurrency() == 0 {
		if s.Open, err = s.newOpen(); err == nil && rec.MeasuredFromNs != nil {
			s.Open.Measure(time.Duration(rec.GetMeasuredFromNs()))
		}
	}
	var config stream.Config
	if err == nil {
		config, err = s.clientConfig(nil)
	}
	if err == nil {
		err = s.newClient(s.settled(config))
	}
	if err == nil {
		err = s.makeContent()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// errNotHere ends the search for rows that only a coordinator has.
var errNotHere = errors.New("its rows are not on this machine")

// settled adds to a configuration what is known about the target.
func (s *Stage) settled(config stream.Config) stream.Config {
	config.RunningUsage, config.ExactOutput = s.Preparation.GetRunningUsage(), s.Preparation.GetExactOutput()
	for _, name := range s.Preparation.GetLeftOut() {
		config.Body[name] = nil
	}
	return config
}

// BodyHash returns the hash of a request's body, as rows have it, unless its prompt has answers of the server: known is
// false then.
func (s *Stage) BodyHash(index uint64, turn int) (hash uint64, known bool, err error) {
	ask, err := s.Content.Spec(index, turn)
	if err != nil || ask.Previous > 0 {
		return 0, false, err
	}
	body := s.Client.AppendVariant(nil, ask.Variant, ask.OSL, func(dst []byte) []byte {
		dst, err = s.Content.AppendPrompt(dst, workload.Request{Index: index, Turn: turn, Form: s.Client.Form()})
		return dst
	})
	if fielder, ok := s.Content.(workload.Fielder); ok && ask.Fields && err == nil {
		body, err = fielder.AppendFields(body, index, turn)
	}
	return stream.BodyHash(body), true, err
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
