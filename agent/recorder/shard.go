package recorder

import (
	"fmt"
	"sync"
	"time"

	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Shard records the events of some of the requests. All methods may be called concurrently; each holds the shard's lock
// for well below a microsecond, or for a copy of the request's gaps.
type Shard struct {
	windows windows
	gauge   *gauge
	config  *Config

	mu     sync.Mutex
	oldest uint32  // first window not sealed
	open   []*page // windows from oldest on
	spare  []*page
	total  total

	_ [64]byte // keeps the next shard's lock out of this one's cache line
}

// page is a shard's data of one window.
type page struct {
	cells  []cell
	turns  []cell // by class, as far as there are any
	rows   []*spatev1.RequestRecord
	shares []windowShare // of the requests that ended in the window, by how many windows earlier
}

// total sums up a shard over all windows. It is counted separately, so that the two can be compared.
type total struct {
	counts                                    measure.Counts
	values                                    [measure.Count]uint64
	firstStart, lastStart, lastEnd, lastToken clock.Instant
}

// Request is what the agent knows of a request before it is sent.
type Request struct {
	Index      uint64 // of the arrival
	Turn       int    // of its session, from 0
	Endpoint   int
	Part       int // of the mixture; 0 if there is none
	Unmeasured bool
	Single     bool   // not of a session, although other parts of the mixture play sessions
	Model      string // of its part's own; empty: the target's
	Scheduled  clock.Instant
	Held       time.Duration // by max_in_flight; 0: not at all
	ISL, OSL   uint32        // requested; ISL 0: not known
	Shared     uint32        // number of leading prompt tokens that an earlier request had, too
	Texts      uint32        // of the request; 0: the workload sets no number
	Images     uint32        // beside the text
	Text       uint32        // prompt tokens without the images, as requested
	BodyHash   uint64
	// Outcome is what the answer has of what the request asked for. It is set before RecordEnd.
	Outcome ready.Outcome
}

// RecordStart records the start of a request.
func (s *Shard) RecordStart(q *Request, at clock.Instant) {
	gap, follows := s.gauge.enter(!q.Unmeasured)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cell(at, q.Part, q.Endpoint)
	s.count(c, pick(q.Unmeasured, measure.UnmeasuredStarted, measure.Started), 1)
	if follows {
		s.value(c, spatev1.Metric_METRIC_START_GAP, gap.Nanoseconds())
	}
}

// RecordToken counts a frame of a request in flight that may carry tokens. tokens is the argument of
// stream.Request.OnToken. It also records receive lags: a caller that hands them over as they come keeps no list that
// grows with the answer.
func (s *Shard) RecordToken(q *Request, at clock.Instant, tokens int, lags ...int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total.lastToken = max(s.total.lastToken, at)
	c := s.cell(at, q.Part, q.Endpoint)
	if q.Unmeasured {
		s.count(c, measure.UnmeasuredFrames, 1)
		return
	}
	s.count(c, measure.Frames, 1)
	if s.plausible(tokens) {
		s.count(c, measure.TokensArrived, uint64(tokens))
	} else { // tokens is stream.TokensUnknown, or nonsense
		s.count(c, measure.UncountedFrames, 1)
	}
	s.lags(c, lags)
}

// RecordEnd records the end of a request, however it ended. It does not keep q or o.
func (s *Shard) RecordEnd(q *Request, o *stream.Observation) {
	s.gauge.leave()
	o = s.bounded(o)
	var row *spatev1.RequestRecord
	if s.config.Records {
		row = newRow(s.windows.start, q, o)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, window := s.page(o.End)
	if row != nil {
		p.rows = append(p.rows, row)
	}
	c := &p.cells[s.config.cellOf(q.Part, q.Endpoint)]
	if o.RTT > 0 {
		// The RTT is about the path to the endpoint, not the request, so connections of a warm-up count, too.
		s.value(c, spatev1.Metric_METRIC_RTT, o.RTT.Nanoseconds())
	}
	if q.Unmeasured {
		s.count(c, measure.UnmeasuredEnded, 1)
		return
	}
	s.span(o)
	s.measure(c, q, o)
	if o.Err == nil && !o.Cancelled {
		p.shareFrames(s.windows, window, o)
		p.shareTime(s.windows, window, o)
		if s.config.Sessions && !q.Single {
			p.turn(q).addTurn(q, o)
		}
	}
}

// RecordCanary records what came of a canary at an endpoint, beside a request of a part of the mixture.
func (s *Shard) RecordCanary(part, endpoint int, a ready.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cell(a.End, part, endpoint)
	if a.Failed {
		s.count(c, measure.CanariesFailed, 1)
		return
	}
	s.count(c, measure.Canaries, 1)
	s.count(c, measure.CanariesDiffering, oneIf(a.Differs))
	s.count(c, measure.CanaryWordsAlike, a.Alike)
	s.count(c, measure.CanaryTasks, oneIf(a.Task))
	s.count(c, measure.CanaryTasksRight, oneIf(a.Right))
}

// Session is how a measured session went.
type Session struct {
	// Endpoint is the endpoint of its first request.
	Endpoint int
	// Part is its part of the mixture. 0 if there is none.
	Part int
	// Start is the start of its first request, End the end of the one that ended last.
	Start, End clock.Instant
	// Critical is the time in requests on its critical path.
	Critical time.Duration
	// Completed reports whether all its requests completed.
	Completed bool
}

// RecordSession records a measured session that has ended. It may be called only with Config.Sessions.
func (s *Shard) RecordSession(x Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cell(x.End, x.Part, x.Endpoint)
	if !x.Completed {
		s.count(c, measure.BrokenSessions, 1)
		return
	}
	s.count(c, measure.CompletedSessions, 1)
	whole := x.End.Sub(x.Start)
	s.value(c, spatev1.Metric_METRIC_TASK, whole.Nanoseconds())
	s.value(c, spatev1.Metric_METRIC_TASK_REQUESTS, x.Critical.Nanoseconds())
	s.value(c, spatev1.Metric_METRIC_TASK_DELAYS, (whole - x.Critical).Nanoseconds())
}

// span extends the time from the first start to the last end.
func (s *Shard) span(o *stream.Observation) {
	if s.total.firstStart == 0 || o.Start < s.total.firstStart {
		s.total.firstStart = o.Start
	}
	s.total.lastStart = max(s.total.lastStart, o.Start)
	s.total.lastEnd = max(s.total.lastEnd, o.End)
}

func (s *Shard) cell(at clock.Instant, part, endpoint int) *cell {
	p, _ := s.page(at)
	return &p.cells[s.config.cellOf(part, endpoint)]
}

// cellOf returns the place of a cell in a page: the endpoints of the first part, then those of the next.
func (c *Config) cellOf(part, endpoint int) int { return part*c.Endpoints + endpoint }

// cells returns the number of cells in a page.
func (c *Config) cells() int { return max(c.Parts, 1) * c.Endpoints }

// maxOpenWindows bounds how many windows are open at once. Only a delayed sealer makes them grow, and only a timestamp
// in the future exceeds the bound: its event goes to the last window within the bound.
const maxOpenWindows = 3600

// page returns the page of an instant's window, or of the oldest open window if that one is sealed, and the page's
// window.
func (s *Shard) page(at clock.Instant) (p *page, window uint32) {
	w := min(max(s.windows.of(at), s.oldest)-s.oldest, maxOpenWindows)
	for uint32(len(s.open)) <= w {
		s.open = append(s.open, s.emptyPage())
	}
	return s.open[w], s.oldest + w
}

// emptyPage returns an empty page, and reuses an old one if possible.
func (s *Shard) emptyPage() *page {
	if n := len(s.spare); n > 0 {
		p := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return p
	}
	return &page{cells: make([]cell, s.config.cells())}
}

func (s *Shard) count(c *cell, what measure.Counter, n uint64) {
	c.counts[what] += n
	s.total.counts[what] += n
}

func (s *Shard) value(c *cell, m spatev1.Metric, v int64) {
	c.values[m] = append(c.values[m], v)
	s.total.values[m]++
}

// seal closes the oldest window and returns its page, or nil if it is empty.
func (s *Shard) seal() *page {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest++
	if len(s.open) == 0 {
		return nil
	}
	p := s.open[0]
	s.open = append(s.open[:0], s.open[1:]...)
	return p
}

// reuse takes back a page that seal returned.
func (s *Shard) reuse(p *page) {
	for _, cells := range [][]cell{p.cells, p.turns} {
		for i := range cells {
			cells[i].reset()
		}
	}
	clear(p.rows)
	p.rows, p.shares = p.rows[:0], p.shares[:0]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = append(s.spare, p)
}

// pick returns a or b.
func pick(first bool, a, b measure.Counter) measure.Counter {
	if first {
		return a
	}
	return b
}

// Length is the length of a window.
const Length = time.Second

// Grace is how long a window stays open after its end for events that are recorded late.
const Grace = 250 * time.Millisecond

// windows maps instants to windows, whole seconds since the stage's start.
type windows struct{ start clock.Instant }

// of returns the window of an instant. Instants before the start belong to the first window.
func (w windows) of(at clock.Instant) uint32 { return uint32(max(at.Sub(w.start), 0) / Length) }

// bounded returns o if it is within the bounds that the coordinator accepts. Otherwise it returns a failed copy that
// says which bound was exceeded. The stream client should have ended such a request already; this is the second check.
func (s *Shard) bounded(o *stream.Observation) *stream.Observation {
	why := s.impossible(o)
	if why == "" {
		return o
	}
	failed := *o
	failed.Err = &stream.Error{Class: spatev1.ErrorClass_ERROR_CLASS_OUT_OF_RANGE, Message: why}
	failed.Frames = o.Frames[:min(len(o.Frames), measure.MaxFrames)]
	failed.Usage, failed.HasCachedTokens, failed.HasReasoningTokens = false, false, false
	failed.OutputTokens, failed.TextBytes, failed.HTTPStatus = 0, 0, 0
	failed.TokenFrames = min(o.TokenFrames, measure.MaxFrames)
	failed.CoalescedReads, failed.UnstampedFrames, failed.PacketFrames, failed.SharedFrames = 0, 0, 0, 0
	return &failed
}

// impossible says which number of a request is impossible, or returns "".
func (s *Shard) impossible(o *stream.Observation) string {
	tokens := max(o.InputTokens, o.OutputTokens, o.CachedTokens, o.ReasoningTokens)
	frames := max(uint64(len(o.Frames)), o.TokenFrames, o.CoalescedReads, o.UnstampedFrames, o.PacketFrames,
		o.SharedFrames)
	switch {
	case tokens > measure.MaxTokens:
		return fmt.Sprintf("%d tokens in one request: more than %d cannot be", tokens, measure.MaxTokens)
	case o.HeadTokens < stream.TokensUnknown || o.HeadTokens > measure.MaxTokens:
		return fmt.Sprintf("%d tokens in the first frame: more than %d cannot be", o.HeadTokens, measure.MaxTokens)
	case frames > measure.MaxFrames:
		return fmt.Sprintf("%d frames in one answer: at most %d are kept", frames, measure.MaxFrames)
	case o.TextBytes > measure.MaxAnswer:
		return fmt.Sprintf("%d bytes of text in one answer: at most %d are possible", o.TextBytes,
			uint64(measure.MaxAnswer))
	case o.Err != nil && o.Err.Class == spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS &&
		(o.Err.HTTPStatus < measure.MinStatus || o.Err.HTTPStatus > measure.MaxStatus):
		return fmt.Sprintf("HTTP status %d is not valid", o.Err.HTTPStatus)
	case s.wouldOverflow(o):
		return fmt.Sprintf("the tokens or bytes of a stage exceed %d: the server's counts cannot be true",
			uint64(measure.MaxTotal))
	}
	return ""
}

// wouldOverflow reports whether a request would push the shard's sums beyond its part of what totals may hold.
func (s *Shard) wouldOverflow(o *stream.Observation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	most, sums := s.maxSum(), &s.total.counts
	return sums[measure.InputTokens]+o.InputTokens > most || sums[measure.OutputTokens]+o.OutputTokens > most ||
		sums[measure.CachedTokens]+o.CachedTokens > most || sums[measure.ReasoningTokens]+o.ReasoningTokens > most ||
		sums[measure.TextBytes]+o.TextBytes > most
}

// maxSum returns half of the shard's part of measure.MaxTotal, because requests that end together see the same sums.
// The sums of a window are bounded by how many requests an agent can end in a second.
func (s *Shard) maxSum() uint64 { return measure.MaxTotal / uint64(2*max(s.config.Shards, 1)) }

// plausible reports whether a frame's tokens can be counted, see stream.Request.OnToken. The caller holds s.mu.
func (s *Shard) plausible(tokens int) bool {
	return tokens >= 0 && tokens <= measure.MaxTokens && s.total.counts[measure.TokensArrived]+
		uint64(tokens) <= s.maxSum()
}
