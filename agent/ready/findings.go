package ready

import (
	"context"
	"crypto/sha256"
	"encoding/json"
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
// server, and only the first with certain extras tries those. Entries are dropped after staleAfter, and all when a
// target of the run is found dead, since it may come back as something else. A findings is safe for concurrent use.
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
	return sha256.Sum256(fmt.Append(b, ownText(s.GetWorkload()))), nil
}

// with hashes a finding together with what requests have besides text.
func (f finding) with(extras []Extra) (finding, error) {
	b, err := json.Marshal(extras)
	if err != nil {
		return finding{}, fmt.Errorf("what requests have besides text: %w", err)
	}
	return sha256.Sum256(append(f[:], b...)), nil
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
// it, and blocks. If only what requests have besides text is new, find tries only that.
func (f *findings) find(ctx context.Context, s *Stage) (*spatev1.Found, error) {
	extras, plainKey, key, err := s.keysOf()
	if err != nil {
		return nil, err
	}
	plain, err := f.getOr(ctx, s.run, plainKey, func() (cachedFinding, error) {
		found, err := Find(ctx, s.Client, s.Assigned,
			func(part int) ([]workload.Line, error) { return workload.Lines(s.rows[part]) })
		if err == nil && s.Assigned.GetCanaries() != nil {
			s.askQuiet(ctx, found)
		}
		return cachedFinding{found, time.Now()}, err
	})
	if left := plain.GetPreparation().GetLeftOut(); err == nil && left != nil {
		err = s.Client.LeaveOut(left)
	}
	if err != nil || len(extras) == 0 {
		return plain.Found, err
	}
	all, err := f.getOr(ctx, s.run, key, func() (cachedFinding, error) {
		sent, err := checkExtras(ctx, s.Client, s.Assigned, extras)
		all := cachedFinding{proto.CloneOf(plain.Found), plain.at} // so that both go stale together
		all.Preparation.Requests += sent
		return all, err
	})
	return all.Found, err
}

// keysOf returns what requests of a stage have besides text, and the keys of what is known without that and with it.
func (s *Stage) keysOf() (extras []Extra, plain, all finding, err error) {
	if extras, err = s.extras(); err == nil {
		plain, err = findingOf(s.Assigned)
	}
	if all = plain; err == nil && len(extras) > 0 {
		all, err = plain.with(extras)
	}
	return extras, plain, all, err
}

// keep keeps what another agent found out about a stage's target, in case this agent is to ask it for a later stage.
func (f *findings) keep(s *Stage) error {
	_, plain, all, err := s.keysOf()
	if err == nil {
		found := cachedFinding{s.found, time.Now()}
		f.put(s.run, plain, found)
		f.put(s.run, all, found)
	}
	return err
}

// knows reports whether a stage of the run has asked this stage's target recently.
func (f *findings) knows(s *Stage) bool {
	key, err := findingOf(s.Assigned)
	_, known := f.get(s.run, key)
	return err == nil && known
}

// getOr returns a finding. A finding that is not known is asked for and kept.
func (f *findings) getOr(
	ctx context.Context, run string, key finding, ask func() (cachedFinding, error),
) (cachedFinding, error) {
	if found, known := f.get(run, key); known {
		return found, nil
	}
	found, err := ask()
	if ctx.Err() != nil { // a cancelled preparation takes what it could not ask for something that is not there
		return cachedFinding{}, context.Cause(ctx)
	}
	if err == nil {
		f.put(run, key, found)
	}
	return found, err
}

func (f *findings) get(run string, key finding) (found cachedFinding, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, known = f.known[key]
	return found, known && f.run == run && time.Since(found.at) <= staleAfter
}

func (f *findings) put(run string, key finding, found cachedFinding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.run != run || f.known == nil {
		f.run, f.known = run, map[finding]cachedFinding{}
	}
	f.known[key] = found
}

// forget drops the findings about the targets of a run.
func (f *findings) forget(run string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.run == run {
		f.known = nil
	}
}
