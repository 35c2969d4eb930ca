package ready

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/plans/defaults"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/content"
)

// findings caches what was found out about the targets of a run, so that only the first stage of a target asks the
// server. Entries are dropped after staleAfter, and all when a target of the run is found dead, since it may come back
// as something else. A findings is safe for concurrent use.
type findings struct {
	mu    sync.Mutex
	run   string
	known map[finding]cachedFinding
}

// cachedFinding is what was found out, and when.
type cachedFinding struct {
	*spatev1.Found // never changed
	at             time.Time
}

// staleAfter is how long a finding is valid: a server that was restarted behind the same address must be asked again at
// some time.
const staleAfter = 30 * time.Minute

// finding is the hash of what a preparation depends on.
type finding [sha256.Size]byte

// findingOf hashes what a stage's preparation depends on: how the target is reached and asked, and the kind of its
// prompts. It excludes the target's name, and the values of headers, which are secrets or references to them.
func findingOf(s *spatev1.Stage) (finding, error) {
	t := s.GetTarget()
	headers := make(map[string]string)
	for name := range t.GetHeaders() {
		headers[name] = ""
	}
	depends := &spatev1.Stage{
		Target: &spatev1.Target{
			Endpoints: t.GetEndpoints(), Api: t.GetApi(), Model: t.GetModel(), ApiKey: t.GetApiKey(), Headers: headers,
			Body:    t.GetBody(),
			Prompts: t.GetPrompts(), Tokenizer: t.GetTokenizer(), ExactOutput: t.GetExactOutput(),
			RunningUsage: t.GetRunningUsage(), Stream: new(defaults.Streams(t)),
		},
		Lexicon: s.GetLexicon(), PartDatasets: sonnetsOf(s), Canaries: s.GetCanaries(),
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(depends)
	if err != nil {
		return finding{}, fmt.Errorf("target %s: %w", t.GetName(), err)
	}
	return sha256.Sum256(fmt.Append(b, ownText(s.GetWorkload()), sendsIDs(s))), nil
}

// sonnetsOf returns the rows of sonnets by part of the mixture, because the lengths of their lines are found by part.
// Nil: there are no sonnets.
func sonnetsOf(s *spatev1.Stage) (all []*spatev1.Dataset) {
	found := false
	for _, source := range content.Sources(s) {
		rows := &spatev1.Dataset{}
		if source.Workload.GetSonnet() != nil {
			found, rows = true, source.Rows
		}
		all = append(all, rows)
	}
	if !found {
		return nil
	}
	return all
}

// find returns what is known about a stage's target. If no stage of the run has asked the server recently, find asks
// it, and blocks.
func (f *findings) find(ctx context.Context, s *Stage) (*spatev1.Found, error) {
	key, err := findingOf(s.Assigned)
	if err != nil {
		return nil, err
	}
	found, known := f.get(s.run, key)
	if !known {
		found, err = Find(ctx, s.Client, s.Assigned,
			func(part int) ([]workload.Line, error) { return workload.Lines(s.rows[part]) })
		if err == nil && s.Assigned.GetCanaries() != nil {
			s.askQuiet(ctx, found)
		}
		if ctx.Err() != nil { // a cancelled preparation takes what it could not ask for something that is not there
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		f.put(s.run, key, found)
	}
	if left := found.GetPreparation().GetLeftOut(); left != nil {
		err = s.Client.LeaveOut(left)
	}
	return found, err
}

// keep keeps what another agent found out about a stage's target, in case this agent is to ask it for a later stage.
func (f *findings) keep(s *Stage) error {
	key, err := findingOf(s.Assigned)
	if err == nil {
		f.put(s.run, key, s.found)
	}
	return err
}

// knows reports whether a stage of the run has asked this stage's target recently.
func (f *findings) knows(s *Stage) bool {
	key, err := findingOf(s.Assigned)
	_, known := f.get(s.run, key)
	return err == nil && known
}

func (f *findings) get(run string, key finding) (found *spatev1.Found, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cached, known := f.known[key]
	return cached.Found, known && f.run == run && time.Since(cached.at) <= staleAfter
}

func (f *findings) put(run string, key finding, found *spatev1.Found) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.run != run || f.known == nil {
		f.run, f.known = run, map[finding]cachedFinding{}
	}
	f.known[key] = cachedFinding{found, time.Now()}
}

// forget drops the findings about the targets of a run.
func (f *findings) forget(run string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.run == run {
		f.known = nil
	}
}
