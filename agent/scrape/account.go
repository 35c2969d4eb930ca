package scrape

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const (
	// settleEvery is the time between readings at the end of a stage, settleTries their maximum number, and
	// settleFailures how many may fail. An engine counts a request a little after it sent the last byte: vLLM in the
	// same turn of its event loop, engines of several processes some milliseconds later. Two readings that agree end
	// the series. On a server that also serves others, readings never agree.
	settleEvery    = 25 * time.Millisecond
	settleTries    = 5
	settleFailures = 2
)

// errNoMetrics means that a page has nothing for an account.
var errNoMetrics = errors.New("it has none of the metrics of a known engine")

// reading is one reading of a source for the account.
type reading struct {
	at clock.Instant // when the source was asked
	totals
}

// attempts counts how often a source was asked for its account.
type attempts struct{ asked, failed uint32 }

// Missing is a source without metrics for an account.
type Missing struct {
	// URL of the source.
	URL string
	// Err says why, without quoting the server.
	Err error
}

// Find looks for the page of each source with an account, also at Source.FallbackURL. It returns the sources without
// metrics in order, and drops them if they are optional. It blocks for at most 2 Timeouts.
func (s *Scraper) Find(ctx context.Context) (missing []Missing) {
	found := make([]*Source, len(s.config.Sources))
	errs := make([]error, len(s.config.Sources))
	s.eachAccount(func(source Source) {
		i := slices.IndexFunc(s.config.Sources, func(o Source) bool { return o.Number == source.Number })
		found[i], errs[i] = s.find(ctx, source)
	})
	var kept []Source
	for i, source := range s.config.Sources {
		switch {
		case source.SamplesOnly:
		case found[i] != nil:
			source = *found[i]
		default:
			missing = append(missing, Missing{source.URL, errs[i]})
			if s.config.Optional {
				continue
			}
		}
		kept = append(kept, source)
	}
	s.config.Sources = kept
	return missing
}

// find returns a source with the address of its page, or nil and an error if there is none.
func (s *Scraper) find(ctx context.Context, source Source) (*Source, error) {
	_, first := s.read(ctx, source)
	if first == nil {
		return &source, nil
	}
	if source.FallbackURL != "" {
		source.URL = source.FallbackURL
		if _, err := s.read(ctx, source); err == nil {
			return &source, nil
		}
	}
	if errors.Is(first, errFormat) {
		first = errFormat
	}
	return nil, first
}

// read takes one reading of a source for the account.
func (s *Scraper) read(ctx context.Context, source Source) (reading, error) {
	r := reading{at: clock.Now()}
	page, err := s.page(ctx, source)
	if err == nil {
		r.totals, err = readTotals(page, s.account, s.config.Model)
	}
	if err == nil && len(r.counters)+len(r.histograms) == 0 {
		err = errNoMetrics
	}
	return r, err
}

// reportResult reports a source that cannot be read, if the previous reading succeeded.
func (s *Scraper) reportResult(source Source, err error) {
	s.mu.Lock()
	was := s.failing[source.Number]
	s.failing[source.Number] = err != nil
	s.mu.Unlock()
	if err != nil && !was {
		s.config.OnFailure(source.URL, err)
	}
}

// readAndReport reads a source, counts the attempt, and reports a failure.
func (s *Scraper) readAndReport(ctx context.Context, source Source) (reading, bool) {
	r, err := s.read(ctx, source)
	if ctx.Err() != nil && err != nil {
		return r, false
	}
	s.mu.Lock()
	t := s.attempts[source.Number]
	t.asked++
	if err != nil {
		t.failed++
	}
	s.attempts[source.Number] = t
	s.mu.Unlock()
	s.reportResult(source, err)
	return r, err == nil
}

// ReadBaseline takes the first readings of the account. If it is called again, as at the end of a warm-up, later
// readings replace earlier ones. It blocks for at most one Timeout.
func (s *Scraper) ReadBaseline(ctx context.Context) {
	s.eachAccount(func(source Source) {
		r, ok := s.readAndReport(ctx, source)
		s.mu.Lock()
		defer s.mu.Unlock()
		if before, there := s.baselines[source.Number]; ok && (!there || before.at < r.at) {
			s.baselines[source.Number] = r
		}
	})
}

// Accounts takes the last readings and returns what the sources counted since ReadBaseline, ordered by source number.
// start is the stage's start. If the first or the last reading of a source failed, its account has only the number of
// readings. Accounts blocks until the counts have settled: usually for 50 ms, for 200 ms if the server also serves
// others, and for at most 5 Timeouts.
func (s *Scraper) Accounts(ctx context.Context, start clock.Instant) []*spatev1.ServerAccount {
	all := map[uint32]*spatev1.ServerAccount{}
	s.eachAccount(func(source Source) {
		last, ok := s.settle(ctx, source)
		s.mu.Lock()
		defer s.mu.Unlock()
		a := &spatev1.ServerAccount{}
		if base, there := s.baselines[source.Number]; ok && there {
			a = growth(base.totals, last.totals, s.account)
			a.FromNs, a.ToNs = base.at.Sub(start).Nanoseconds(), last.at.Sub(start).Nanoseconds()
		}
		a.Source, a.Asked, a.Failed = source.Number, s.attempts[source.Number].asked, s.attempts[source.Number].failed
		all[source.Number] = a
	})
	return slices.SortedFunc(maps.Values(all),
		func(a, b *spatev1.ServerAccount) int { return cmp.Compare(a.GetSource(), b.GetSource()) })
}

// settle reads a source until two readings agree.
func (s *Scraper) settle(ctx context.Context, source Source) (last reading, ok bool) {
	failures := 0
	for range settleTries {
		r, read := s.readAndReport(ctx, source)
		switch {
		case !read:
			failures++
		case ok && r.agrees(last):
			return last, true
		default:
			last, ok = r, true
		}
		if failures == settleFailures || !clock.Sleep(ctx, settleEvery) {
			break
		}
	}
	return last, ok
}

// agrees reports whether two readings have the same counts. Histograms decide if there are any, because counters of a
// server's own requests change with each reading.
func (t totals) agrees(other reading) bool {
	if len(t.histograms) == 0 {
		return maps.Equal(t.counters, other.counters)
	}
	return maps.EqualFunc(t.histograms, other.histograms, func(a, b histogram) bool { return a.count == b.count })
}
