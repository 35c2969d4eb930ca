package simulator

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/spate-load/spate/clock"
)

// phase is where a sequence is in its life in an engine.
type phase uint8

const (
	waiting  phase = iota // in its overhead, or queued for prefill
	running               // in prefill, or decoding
	handed                // disaggregated: prefilled, and waiting for a slot of a decoder
	departed              // finished or cancelled
)

// sequence is one request as an engine sees it: so many tokens in, so many out.
type sequence struct {
	prompt   int
	blocks   []uint64 // chained hashes of the prompt's whole blocks, for the prefix cache
	output   int      // at least 1
	noise    float64  // standard normal, for the jitter of its prefill
	cached   int      // prompt tokens that the prefix cache had; set before the first token
	produced int
	phase    phase
	arrived  clock.Instant // set by whoever submits it; the engine does not look at it
	ready    clock.Instant // end of its overhead; with a metronome, of its next token
	queued   clock.Instant // start of its wait for prefill
	began    clock.Instant // start of its prefill
	first    clock.Instant // of its tokens; set by the loop, as is latest
	latest   clock.Instant
	decoder  *decoder // on which it holds a slot, nil without one
	// outlet takes the tokens to the one who waits for them. The engine itself never touches it.
	outlet *outlet
}

// emission is one token of a sequence, and the instant at which the model produces it. produced counts the sequence's
// tokens with this one.
type emission struct {
	seq      *sequence
	at       clock.Instant
	produced int
}

// engine is a discrete-event model of one serving engine, or of a group of engines that share prefill and decode among
// them. It has no clock: advance takes it to an instant, add and cancel act at the instant it is at. Its rules:
//
// Overhead passes before a sequence is queued, and holds nothing.
//
// Prefill is a queue: prompts are taken first come, first served, and take the tokens that the prefix cache does not
// have / prefill rate, and PrefillPerPrompt. An ordinary engine prefills one at a time, as long as a slot of
// max_running is free, which the sequence keeps to its end. The end of the prefill produces the first token. With
// PrefillSharing nothing waits in the queue: k prompts on n prefillers get n/k of one each, or one each if there are
// enough.
//
// In a disaggregated group any free prefiller takes the next prompt, and is busy until it has handed over the KV cache;
// then the sequence takes a slot of the decoder that holds the fewest, waiting for one if need be, and has its first
// token. While a KV cache is handed over, the decoders lose the share TransferInterference of their pace. With
// PrefillFirst a prefiller takes the prompts that wait before it hands over those it has finished; these go together,
// and the decoders lose their share from the end of the first prefill on.
//
// Decode goes in steps: see decoder. While an ordinary engine prefills, its decoding loses the share
// PrefillInterference of its pace.
//
// At one instant ends of prefill come before admissions to decoders, these before begins of prefill, then begins of
// handing over, then ends of steps, then begins of steps. It is not safe for concurrent use.
type engine struct {
	model    Model
	now      clock.Instant
	queue    queue // for prefill
	handed   queue // for a decoder
	prefills []prefiller
	busy     int       // prefillers that are not free
	handing  int       // prefillers that hand over a KV cache
	shares   timeShare // of prefill
	decoders []decoder
	split    bool // disaggregated
	engines  int  // that prefill
}

// prefiller is what does one prefill at a time. If prefill is shared there are as many as prompts in it.
type prefiller struct {
	seq     *sequence     // nil: free
	due     time.Duration // its end, on the clock of shares
	handing bool          // it costs the decoders their share
	cache   *prefixCache

	// With PrefillFirst alone.
	finished []*sequence // prefilled, and not posted yet
	posted   []*sequence // to be handed over together; the decoders wait for them
	moving   bool        // they are being handed over
}

// timeShare is a clock that shows how much time each of those that share something has been given.
type timeShare struct {
	asOf  clock.Instant
	given time.Duration // at asOf
	pace  float64       // given in a unit of time, above 0
}

// at returns what the clock shows at an instant.
func (s *timeShare) at(now clock.Instant) time.Duration {
	if s.pace == 1 {
		return s.given + now.Sub(s.asOf)
	}
	return s.given + time.Duration(float64(now.Sub(s.asOf))*s.pace)
}

// when returns the first instant at which the clock shows a time.
func (s *timeShare) when(due time.Duration) clock.Instant {
	if s.pace == 1 {
		return s.asOf.Add(due - s.given)
	}
	return s.asOf.Add(nanoseconds(math.Ceil(float64(due-s.given) / s.pace)))
}

// setPace changes the pace from an instant on.
func (s *timeShare) setPace(now clock.Instant, pace float64) {
	*s = timeShare{asOf: now, given: s.at(now), pace: pace}
}

// newEngine returns an ordinary engine, or, if there are prefillers, a disaggregated group.
func newEngine(m Model, prefillers, decoders int, now clock.Instant) engine {
	e := engine{model: m, now: now, split: prefillers > 0, shares: timeShare{asOf: now, pace: 1}}
	if !e.split {
		prefillers, decoders = 1, 1
	}
	e.engines = prefillers
	e.prefills = make([]prefiller, prefillers)
	for i := range e.prefills {
		e.prefills[i].cache = newPrefixCache(m.CacheBlocks)
	}
	e.decoders = make([]decoder, decoders)
	for i := range e.decoders {
		e.decoders[i] = decoder{model: m, pace: 1, noise: m.stepNoise(0, i)}
	}
	return e
}

// add queues a sequence at the engine's present instant.
func (e *engine) add(s *sequence) {
	s.ready = e.now.Add(e.model.Overhead)
	s.queued = s.ready
	e.queue.push(s, waiting)
}

// cancel takes a sequence out, wherever it is. The step under way keeps its length, as a real one does. Cancelling one
// that has departed does nothing.
func (e *engine) cancel(s *sequence) {
	switch s.phase {
	case waiting:
		e.queue.drop(s)
	case handed:
		e.handed.drop(s)
	case running:
		s.depart()
		for i := range e.prefills {
			if e.prefills[i].seq == s {
				e.freePrefill(&e.prefills[i])
			}
		}
	}
}

// running counts the sequences in prefill and decode.
func (e *engine) running() int {
	n := 0
	for i := range e.decoders {
		n += e.decoders[i].held
	}
	for i := range e.prefills {
		if e.split && e.prefills[i].seq != nil {
			n++
		}
		n += len(appendPresent(nil, e.prefills[i].finished)) + len(appendPresent(nil, e.prefills[i].posted))
	}
	return n
}

// waiting counts the sequences that have not begun, or not their decoding.
func (e *engine) waiting() int { return e.queue.live + e.handed.live }

// action is what an event of the engine does. Of those at one instant the lowest comes first.
type action uint8

const (
	actEndPrefill action = iota
	actAdmit
	actBeginPrefill
	actBeginTransfer
	actServeStep
	actBeginStep
)

// event is what happens next: an action, and to which prefiller or decoder.
type event struct {
	at    clock.Instant
	act   action
	index int
}

// soonest keeps the earlier of two events.
func (v *event) soonest(found *bool, other event) {
	if !*found || other.at < v.at || other.at == v.at && other.act < v.act {
		*v, *found = other, true
	}
}

// upcoming returns the next event, false if nothing will happen without a new sequence.
func (e *engine) upcoming() (event, bool) {
	var v event
	found := false
	free := e.upcomingOfPrefills(&v, &found)
	for i := range e.decoders {
		if at, act, ok := e.decoders[i].upcoming(e.now); ok {
			v.soonest(&found, event{at, act, i})
		}
	}
	if e.model.PrefillSharing && free < 0 {
		free = len(e.prefills)
	}
	if e.queue.live > 0 && free >= 0 && (e.split || e.decoders[0].free()) {
		v.soonest(&found, event{max(e.queue.front().ready, e.now), actBeginPrefill, free})
	}
	if e.handed.live > 0 {
		if i := e.emptiest(); e.decoders[i].free() {
			v.soonest(&found, event{e.now, actAdmit, i})
		}
	}
	return v, found
}

// upcomingOfPrefills keeps the earliest event of the prefillers. It returns the first that is free, -1 without one.
func (e *engine) upcomingOfPrefills(v *event, found *bool) int {
	free := -1
	for i := range e.prefills {
		p := &e.prefills[i]
		if p.seq != nil || p.moving {
			v.soonest(found, event{e.shares.when(p.due), actEndPrefill, i})
			continue
		}
		if free < 0 {
			free = i
		}
		if len(p.posted) > 0 {
			v.soonest(found, event{e.now, actBeginTransfer, i})
		}
	}
	return free
}

// next returns the instant of the next event, false if nothing will happen without a new sequence.
func (e *engine) next() (clock.Instant, bool) {
	v, ok := e.upcoming()
	return v.at, ok
}

// advance takes the engine to an instant and appends what it emits on the way, in order of time. An instant that has
// passed changes nothing.
func (e *engine) advance(to clock.Instant, dst []emission) []emission {
	for {
		v, ok := e.upcoming()
		if !ok || v.at > to {
			e.now = max(e.now, to)
			return dst
		}
		e.now = max(e.now, v.at)
		dst = e.happen(v, dst)
	}
}

func (e *engine) happen(v event, dst []emission) []emission {
	switch v.act {
	case actEndPrefill:
		return e.endPrefill(&e.prefills[v.index], dst)
	case actAdmit:
		s := e.handed.pop()
		e.decoders[v.index].hold(s)
		return e.decoders[v.index].join(s, e.now, dst)
	case actBeginPrefill:
		e.beginPrefill(v.index)
	case actBeginTransfer:
		e.beginTransfer(&e.prefills[v.index])
	case actServeStep:
		return e.decoders[v.index].serve(e.now, dst)
	case actBeginStep:
		e.decoders[v.index].begin(e.now)
	}
	return dst
}

func (e *engine) beginPrefill(i int) {
	if i == len(e.prefills) {
		e.prefills = append(e.prefills, prefiller{cache: e.prefills[i%e.engines].cache})
	}
	p, s := &e.prefills[i], e.queue.pop()
	s.phase, s.began = running, e.now
	s.cached = e.model.cachedTokens(s.prompt, p.cache.lookup(s.blocks))
	p.seq = s
	e.setBusy(e.busy + 1)
	p.due = e.shares.at(e.now) + e.model.prefillWork(s)
	if e.split {
		return
	}
	e.decoders[0].hold(s)
	e.decoders[0].setPace(e.now, 1-e.model.PrefillInterference)
}

func (e *engine) endPrefill(p *prefiller, dst []emission) []emission {
	switch {
	case p.moving:
		e.endTransfer(p)
		return dst
	case e.split && e.model.PrefillFirst:
		e.finish(p)
		return dst
	}
	s := p.seq
	if transfer := e.model.transferTime(s.prompt); e.split && transfer > 0 && !p.handing {
		p.due += transfer
		e.setHanding(p, true)
		return dst
	}
	e.freePrefill(p)
	p.cache.store(s.blocks)
	if e.split {
		e.handed.push(s, handed)
		return dst
	}
	return e.decoders[0].join(s, e.now, dst)
}

func (e *engine) freePrefill(p *prefiller) {
	p.seq = nil
	e.setHanding(p, len(p.posted) > 0)
	e.setBusy(e.busy - 1)
	if !e.split && e.busy == 0 {
		e.decoders[0].setPace(e.now, 1)
	}
}

// setHanding notes whether a prefiller costs the decoders their share, by a KV cache that it hands over.
func (e *engine) setHanding(p *prefiller, handing bool) {
	if p.handing == handing {
		return
	}
	p.handing = handing
	pace := 1.0
	if handing {
		e.handing++
	} else {
		e.handing--
	}
	if e.handing > 0 {
		pace = 1 - e.model.TransferInterference
	}
	for i := range e.decoders {
		e.decoders[i].setPace(e.now, pace)
	}
}

// setBusy changes how many prompts are in prefill, and with it what each gets.
func (e *engine) setBusy(n int) {
	e.busy = n
	if e.model.PrefillSharing {
		e.shares.setPace(e.now, min(1, float64(e.engines)/float64(max(1, n))))
	}
}

// emptiest returns the decoder that holds the fewest sequences, the first of equals.
func (e *engine) emptiest() int {
	least := 0
	for i := range e.decoders {
		if e.decoders[i].held < e.decoders[least].held {
			least = i
		}
	}
	return least
}

// depart ends a running sequence and frees its slot.
func (s *sequence) depart() {
	s.phase = departed
	if s.decoder != nil {
		s.decoder.held--
		s.decoder = nil
	}
}

// longest keeps the arithmetic of instants from overflowing when something is asked to take for ever.
const longest = 365 * 24 * time.Hour

// nanoseconds rounds to a duration, at most longest.
func nanoseconds(ns float64) time.Duration {
	return time.Duration(math.Round(min(ns, float64(longest))))
}

// stepNoise returns what the jitter and the stalls of a decoder are drawn from, nil if it has neither.
func (m *Model) stepNoise(seed uint64, decoder int) *rand.Rand {
	if m.StepJitter == 0 && m.StallShare == 0 {
		return nil
	}
	return rand.New(rand.NewPCG(seed, uint64(decoder)))
}

// prefillWork is how long a prompt takes alone on an engine, with its jitter.
func (m *Model) prefillWork(s *sequence) time.Duration {
	work := m.PrefillPerPrompt + m.prefillTime(s.prompt-s.cached)
	if m.PrefillJitter == 0 {
		return work
	}
	return nanoseconds(lognormal(float64(work), m.PrefillJitter, s.noise))
}

// prefillTime is how long so many prompt tokens take alone.
func (m *Model) prefillTime(tokens int) time.Duration {
	return nanoseconds(float64(tokens) / m.PrefillTokensPerSecond * float64(time.Second))
}

// transferTime is how long it takes to hand over a prompt's KV cache, all of it, whatever the prefix cache had.
func (m *Model) transferTime(tokens int) time.Duration {
	return nanoseconds(float64(tokens) / 1000 * float64(m.TransferPerThousandTokens))
}

// stepTime is how long a decode step takes with so many sequences.
func (m *Model) stepTime(batch int) time.Duration {
	return m.DecodeStep + time.Duration(batch-1)*m.DecodeStepPerRequest
}

// cachedTokens is what a prompt is spared if the cache has so many of its blocks: at least one token is computed, as
// its logits give the first token of the output.
func (m *Model) cachedTokens(prompt, blocks int) int {
	if blocks == 0 {
		return 0
	}
	return min(blocks, (prompt-1)/m.CacheBlockTokens) * m.CacheBlockTokens
}
