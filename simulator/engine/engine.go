// Package engine models the time that serving engines take: it receives requests and instants, and returns the tokens
// that have been produced and when. It is pure: it has no clock, no I/O and no goroutine, so it is tested without a
// clock, and hours of load are simulated in moments (package fits). New returns the configured model: an engine, a
// disaggregated group of prefill and decode engines, or a metronome where a steady rhythm is wanted.
package engine

import (
	"math"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/simulator/config"
)

// phase is a sequence's phase of life in an engine.
type phase uint8

const (
	waiting  phase = iota // in its overhead, or queued for prefill
	running               // in prefill, or decoding
	handed                // disaggregated: prefilled, and waiting for a slot of a decoder
	departed              // finished or cancelled
)

// Sequence is one request as an engine sees it: a number of prompt tokens and a number of output tokens.
type Sequence struct {
	Prompt   int
	Blocks   []uint64 // chained hashes of the prompt's whole blocks, for the prefix cache
	Output   int      // at least 1
	Noise    float64  // standard normal, for its prefill jitter
	Cached   int      // prompt tokens found in the prefix cache; set before the first token
	produced int
	phase    phase
	Arrived  clock.Instant // set by the submitter; the engine does not read it
	ready    clock.Instant // end of its overhead; with a metronome, instant of its next token
	Queued   clock.Instant // start of its wait for prefill
	Began    clock.Instant // start of its prefill
	First    clock.Instant // its first token; the loop sets first and latest
	Latest   clock.Instant
	decoder  *decoder // the decoder on which it holds a slot, or nil
	// Outlet takes the tokens. The model never touches it.
	Outlet Outlet
}

// Outlet takes the tokens of one sequence from the model.
type Outlet interface {
	// Publish tells how many tokens of the sequence there are. It reports whether this call ended the sequence's
	// answer.
	Publish(produced int) (ended bool)
}

// Emission is one token of a sequence, and the instant at which the model produces it. Produced is the number of tokens
// of the sequence so far, including this one.
type Emission struct {
	Seq      *Sequence
	At       clock.Instant
	Produced int
}

// engine is a discrete-event model of one serving engine, or of a disaggregated group of prefill and decode engines. It
// has no clock: advance moves it to an instant, and add and cancel act at its current instant. Its rules:
//
// A request's overhead passes before the sequence is queued, and occupies nothing.
//
// Prefill is a first-come, first-served queue. A prompt takes the time of the tokens that are not in the prefix cache
// at the prefill rate, plus PrefillPerPrompt. An ordinary engine prefills one prompt at a time, and only if one of its
// max_running slots is free. The sequence keeps that slot to its end. The end of the prefill produces the first token.
// With PrefillSharing nothing waits in the queue: k prompts on n prefillers get n/k of a prefiller each, at most one.
//
// In a disaggregated group any free prefiller takes the next prompt, and is busy until it has handed over the KV cache.
// The sequence then takes a slot of the decoder that holds the fewest sequences, waits for one if necessary, and gets
// its first token. While a KV cache is handed over, the decoders lose the share TransferInterference of their pace.
// With PrefillFirst a prefiller takes the waiting prompts before it hands over the finished ones. These are handed over
// together, and the decoders lose their share from the end of the first prefill on.
//
// Decoding proceeds in steps: see decoder. While an ordinary engine prefills, its decoding loses the share
// PrefillInterference of its pace.
//
// Events at the same instant happen in this order: ends of prefill, admissions to decoders, starts of prefill, starts
// of transfers, ends of steps, starts of steps. The engine is not safe for concurrent use.
type engine struct {
	model    costs
	now      clock.Instant
	queue    queue // waiting for prefill
	handed   queue // waiting for a decoder
	prefills []prefiller
	busy     int       // prefillers that are not free
	handing  int       // prefillers that are handing over a KV cache
	shares   timeShare // prefill time given to each prompt in prefill
	decoders []decoder
	split    bool // disaggregated
	engines  int  // number of engines that prefill
}

// prefiller does one prefill at a time. With shared prefill there is one for each prompt in prefill.
type prefiller struct {
	seq     *Sequence     // nil: free
	due     time.Duration // end of its work, on the clock shares
	handing bool          // it costs the decoders a share of their pace
	cache   *prefixCache

	// The fields below are used only with PrefillFirst.
	finished []*Sequence // prefilled, and not posted yet
	posted   []*Sequence // to be handed over together; the decoders already wait for them
	moving   bool        // the posted sequences are being handed over
}

// timeShare is a clock that shows how much time each user of a shared resource has been given.
type timeShare struct {
	asOf  clock.Instant
	given time.Duration // at asOf
	pace  float64       // time given per unit of time, above 0
}

// at returns the time that the clock shows at an instant.
func (s *timeShare) at(now clock.Instant) time.Duration {
	if s.pace == 1 {
		return s.given + now.Sub(s.asOf)
	}
	return s.given + time.Duration(float64(now.Sub(s.asOf))*s.pace)
}

// when returns the first instant at which the clock shows a given time.
func (s *timeShare) when(due time.Duration) clock.Instant {
	if s.pace == 1 {
		return s.asOf.Add(due - s.given)
	}
	return s.asOf.Add(nanoseconds(math.Ceil(float64(due-s.given) / s.pace)))
}

// setPace changes the pace at an instant.
func (s *timeShare) setPace(now clock.Instant, pace float64) {
	*s = timeShare{asOf: now, given: s.at(now), pace: pace}
}

// newEngine returns an ordinary engine if prefillers is 0, or else a disaggregated group.
func newEngine(m config.Model, prefillers, decoders int, now clock.Instant) engine {
	e := engine{model: costs{m}, now: now, split: prefillers > 0, shares: timeShare{asOf: now, pace: 1}}
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
		e.decoders[i] = decoder{model: e.model, pace: 1, noise: e.model.stepNoise(0, i)}
	}
	return e
}

// Add queues a sequence at the engine's current instant.
func (e *engine) Add(s *Sequence) {
	s.ready = e.now.Add(e.model.Overhead)
	s.Queued = s.ready
	e.queue.push(s, waiting)
}

// Cancel removes a sequence from wherever it is. A step in progress keeps its length, as in a real engine. Cancelling a
// departed sequence does nothing.
func (e *engine) Cancel(s *Sequence) {
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

// Running counts the sequences in prefill and decode.
func (e *engine) Running() int {
	n := 0
	for i := range e.decoders {
		n += e.decoders[i].held
	}
	for i := range e.prefills {
		if e.split && e.prefills[i].seq != nil {
			n++
		}
		n += len(appendRunning(nil, e.prefills[i].finished)) + len(appendRunning(nil, e.prefills[i].posted))
	}
	return n
}

// Waiting counts the sequences that wait for prefill or for a decoder.
func (e *engine) Waiting() int { return e.queue.live + e.handed.live }

// action is what an event does. Among events at the same instant, the lowest action happens first.
type action uint8

const (
	actEndPrefill action = iota
	actAdmit
	actBeginPrefill
	actBeginTransfer
	actServeStep
	actBeginStep
)

// event is an action at an instant. index is the prefiller or decoder that it concerns.
type event struct {
	at    clock.Instant
	act   action
	index int
}

// keepEarlier replaces v by other if other happens earlier, or if no event was found yet.
func (v *event) keepEarlier(found *bool, other event) {
	if !*found || other.at < v.at || other.at == v.at && other.act < v.act {
		*v, *found = other, true
	}
}

// nextEvent returns the next event, or false if nothing will happen without a new sequence.
func (e *engine) nextEvent() (event, bool) {
	var v event
	found := false
	free := e.nextOfPrefills(&v, &found)
	for i := range e.decoders {
		if at, act, ok := e.decoders[i].nextAction(e.now); ok {
			v.keepEarlier(&found, event{at, act, i})
		}
	}
	if e.model.PrefillSharing && free < 0 {
		free = len(e.prefills)
	}
	if e.queue.live > 0 && free >= 0 && (e.split || e.decoders[0].free()) {
		v.keepEarlier(&found, event{max(e.queue.front().ready, e.now), actBeginPrefill, free})
	}
	if e.handed.live > 0 {
		if i := e.leastLoaded(); e.decoders[i].free() {
			v.keepEarlier(&found, event{e.now, actAdmit, i})
		}
	}
	return v, found
}

// nextOfPrefills updates v with the earliest event of the prefillers. It returns the index of the first free
// prefiller, or -1.
func (e *engine) nextOfPrefills(v *event, found *bool) int {
	free := -1
	for i := range e.prefills {
		p := &e.prefills[i]
		if p.seq != nil || p.moving {
			v.keepEarlier(found, event{e.shares.when(p.due), actEndPrefill, i})
			continue
		}
		if free < 0 {
			free = i
		}
		if len(p.posted) > 0 {
			v.keepEarlier(found, event{e.now, actBeginTransfer, i})
		}
	}
	return free
}

// Next returns the instant of the next event, or false if nothing will happen without a new sequence.
func (e *engine) Next() (clock.Instant, bool) {
	v, ok := e.nextEvent()
	return v.at, ok
}

// Advance moves the engine to an instant and appends what it emits on the way, in order of time. An instant in the past
// changes nothing.
func (e *engine) Advance(to clock.Instant, dst []Emission) []Emission {
	for {
		v, ok := e.nextEvent()
		if !ok || v.at > to {
			e.now = max(e.now, to)
			return dst
		}
		e.now = max(e.now, v.at)
		dst = e.apply(v, dst)
	}
}

func (e *engine) apply(v event, dst []Emission) []Emission {
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
	s.phase, s.Began = running, e.now
	s.Cached = e.model.cachedTokens(s.Prompt, p.cache.lookup(s.Blocks))
	p.seq = s
	e.setBusy(e.busy + 1)
	p.due = e.shares.at(e.now) + e.model.prefillWork(s)
	if e.split {
		return
	}
	e.decoders[0].hold(s)
	e.decoders[0].setPace(e.now, 1-e.model.PrefillInterference)
}

func (e *engine) endPrefill(p *prefiller, dst []Emission) []Emission {
	switch {
	case p.moving:
		e.endTransfer(p)
		return dst
	case e.split && e.model.PrefillFirst:
		e.finish(p)
		return dst
	}
	s := p.seq
	if transfer := e.model.transferTime(s.Prompt); e.split && transfer > 0 && !p.handing {
		p.due += transfer
		e.setHanding(p, true)
		return dst
	}
	e.freePrefill(p)
	p.cache.store(s.Blocks)
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

// setHanding records whether a prefiller is handing over a KV cache, which costs the decoders a share of their pace.
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

// setBusy changes the number of prompts in prefill, and with it the share of each.
func (e *engine) setBusy(n int) {
	e.busy = n
	if e.model.PrefillSharing {
		e.shares.setPace(e.now, min(1, float64(e.engines)/float64(max(1, n))))
	}
}

// leastLoaded returns the index of the decoder that holds the fewest sequences, the first among equals.
func (e *engine) leastLoaded() int {
	least := 0
	for i := range e.decoders {
		if e.decoders[i].held < e.decoders[least].held {
			least = i
		}
	}
	return least
}

// emit gives a sequence its next token. After the last one the sequence departs.
func (s *Sequence) emit(at clock.Instant, dst []Emission) []Emission {
	s.produced++
	if s.produced == s.Output {
		s.depart()
	}
	return append(dst, Emission{Seq: s, At: at, Produced: s.produced})
}

// depart ends a running sequence and frees its slot.
func (s *Sequence) depart() {
	s.phase = departed
	if s.decoder != nil {
		s.decoder.held--
		s.decoder = nil
	}
}
