package engine

import "time"

// naiveEngine is an oracle of the engines, as simple as possible: every tick it looks at every sequence.
type naiveEngine struct {
	group
	split    bool
	seqs     []*naiveSequence // in the order of arrival
	handed   []*naiveSequence // in the order in which they were handed over
	stepLeft []int            // of each decoder; -1: no step in progress
	out      []token

	// Only with PrefillFirst, by prefiller.
	finished, posted map[int][]*naiveSequence
	moveEnd          map[int]int // tick at which the posted prompts have been handed over
}

type naiveSequence struct {
	arrival
	number     int
	state      string // waiting, prefill, handed, decode, gone
	ready      int
	prefiller  int
	prefillEnd int
	decoder    int
	produced   int
	inStep     bool
}

func oracle(g group, arrivals []arrival) []token {
	d := &naiveEngine{group: g, split: g.prefillers > 0,
		finished: map[int][]*naiveSequence{}, posted: map[int][]*naiveSequence{},
		moveEnd: map[int]int{}}
	if !d.split {
		d.prefillers, d.decoders = 1, 1
	}
	for range d.decoders {
		d.stepLeft = append(d.stepLeft, -1)
	}
	byNumber := map[int]*naiveSequence{}
	events := timeline(arrivals, nil)
	for now := 0; len(events) > 0 || d.count("gone", -1) < len(d.seqs); now++ {
		d.settle(now)
		for len(events) > 0 && events[0].at == now {
			ev := events[0]
			events = events[1:]
			if ev.cancel {
				byNumber[ev.seq].state = "gone"
			} else {
				s := &naiveSequence{arrival: arrivals[ev.seq], number: ev.seq, state: "waiting",
					ready: now + int(d.Overhead/tick)}
				byNumber[ev.seq] = s
				d.seqs = append(d.seqs, s)
			}
			d.settle(now)
		}
		d.pass(now)
	}
	return d.out
}

// count counts the sequences in a state on a decoder, or on all decoders if it is negative.
func (d *naiveEngine) count(state string, decoder int) int {
	n := 0
	for _, s := range d.seqs {
		if s.state == state && (decoder < 0 || s.decoder == decoder) {
			n++
		}
	}
	return n
}

// held counts the slots in use on a decoder.
func (d *naiveEngine) held(decoder int) int {
	n := d.count("decode", decoder)
	if !d.split {
		n += d.count("prefill", decoder)
	}
	return n
}

// handing reports whether a KV cache is being handed over.
func (d *naiveEngine) handing(now int) bool {
	for _, s := range d.seqs {
		if s.state == "prefill" && now >= s.prefillEnd-d.transfer(s) && !d.PrefillFirst {
			return true
		}
	}
	for _, posted := range d.posted {
		if len(posted) > 0 {
			return true
		}
	}
	return false
}

// post makes a prefiller's finished prompts the next ones to be handed over.
func (d *naiveEngine) post(p int) {
	if len(d.posted[p]) == 0 {
		d.posted[p], d.finished[p] = d.finished[p], nil
	}
}

func (d *naiveEngine) endTransfer(p, now int) bool {
	if end, moving := d.moveEnd[p]; !moving || end != now {
		return false
	}
	for _, s := range d.posted[p] {
		if s.state == "finished" {
			s.state = "handed"
			d.handed = append(d.handed, s)
		}
	}
	delete(d.moveEnd, p)
	d.posted[p] = nil
	d.post(p)
	return true
}

// startTransfer starts handing over the posted prompts of an idle prefiller.
func (d *naiveEngine) startTransfer(now int) bool {
	busy := d.busy()
	for p := range d.prefillers {
		if busy[p] || len(d.posted[p]) == 0 {
			continue
		}
		d.moveEnd[p] = now
		for _, s := range d.posted[p] {
			if s.state == "finished" {
				d.moveEnd[p] += d.transfer(s)
			}
		}
		return true
	}
	return false
}

// busy returns the prefillers that prefill or hand over.
func (d *naiveEngine) busy() map[int]bool {
	busy := map[int]bool{}
	for _, s := range d.seqs {
		if s.state == "prefill" {
			busy[s.prefiller] = true
		}
	}
	for p := range d.moveEnd {
		busy[p] = true
	}
	return busy
}

// transfer returns how many ticks it takes to hand over a prompt.
func (d *naiveEngine) transfer(s *naiveSequence) int {
	if !d.split {
		return 0
	}
	return s.Prompt * int(d.TransferPerThousandTokens/tick) / 1000
}

// pass advances everything by one tick.
func (d *naiveEngine) pass(now int) {
	if !d.split && d.PrefillInterference == 1 && d.count("prefill", -1) > 0 || d.TransferInterference == 1 &&
		d.handing(now) {
		return
	}
	for i := range d.stepLeft {
		if d.stepLeft[i] > 0 {
			d.stepLeft[i]--
		}
	}
}

// settle lets everything happen that is due at a tick, until nothing more does.
func (d *naiveEngine) settle(now int) {
	for d.endPrefill(now) || d.admit(now) || d.startPrefill(now) || d.startTransfer(now) || d.endStep(now) ||
		d.beginStep() {
	}
}

func (d *naiveEngine) endPrefill(now int) bool {
	for p := range d.prefillers {
		if d.endTransfer(p, now) {
			return true
		}
		for _, s := range d.seqs {
			if s.state != "prefill" || s.prefiller != p || s.prefillEnd != now {
				continue
			}
			switch s.state = "decode"; {
			case d.split && d.PrefillFirst:
				s.state = "finished"
				d.finished[p] = append(d.finished[p], s)
				d.post(p)
			case d.split:
				s.state = "handed"
				d.handed = append(d.handed, s)
			default:
				d.give(s, now)
			}
			return true
		}
	}
	return false
}

func (d *naiveEngine) admit(now int) bool {
	least := 0
	for i := range d.decoders {
		if d.held(i) < d.held(least) {
			least = i
		}
	}
	for _, s := range d.handed {
		if s.state == "handed" && d.held(least) < d.MaxRunning {
			s.state, s.decoder = "decode", least
			d.give(s, now)
			return true
		}
	}
	return false
}

func (d *naiveEngine) startPrefill(now int) bool {
	busy := d.busy()
	if len(busy) == d.prefillers || !d.split && d.held(0) >= d.MaxRunning {
		return false
	}
	free := 0
	for busy[free] {
		free++
	}
	for _, s := range d.seqs {
		if s.state == "waiting" && s.ready <= now {
			s.state, s.prefiller = "prefill", free
			s.prefillEnd = now + int(d.PrefillPerPrompt/tick) + s.Prompt
			if !d.PrefillFirst {
				s.prefillEnd += d.transfer(s)
			}
			return true
		}
	}
	return false
}

func (d *naiveEngine) endStep(now int) bool {
	for i, left := range d.stepLeft {
		if left != 0 {
			continue
		}
		d.stepLeft[i] = -1
		for _, s := range d.joined(i) {
			if s.inStep {
				d.give(s, now)
			}
			s.inStep = false
		}
		return true
	}
	return false
}

func (d *naiveEngine) beginStep() bool {
	for i, left := range d.stepLeft {
		joined := d.joined(i)
		if left >= 0 || len(joined) == 0 {
			continue
		}
		for _, s := range joined {
			s.inStep = true
		}
		d.stepLeft[i] = int((d.DecodeStep + d.DecodeStepPerRequest*time.Duration(len(joined)-1)) / tick)
		return true
	}
	return false
}

// joined returns the sequences that decode on a decoder, in the order of their first tokens.
func (d *naiveEngine) joined(decoder int) []*naiveSequence {
	var seqs []*naiveSequence
	for _, t := range d.out {
		for _, s := range d.seqs {
			if t.N == 1 && s.number == t.Seq && s.state == "decode" && s.decoder == decoder {
				seqs = append(seqs, s)
			}
		}
	}
	return seqs
}

func (d *naiveEngine) give(s *naiveSequence, now int) {
	s.produced++
	d.out = append(d.out, token{s.number, s.produced, now})
	if s.produced == s.Output {
		s.state = "gone"
	}
}
