package simulator

// dumb is the engine again, as simple as can be: every tick it looks at every sequence.
type dumb struct {
	base, per, most int
	seqs            []*dumbSeq
	stepEnd         int // -1: no step under way
	out             []token
}

type dumbSeq struct {
	arrival
	number     int
	state      string // waiting, prefill, decode, gone
	prefillEnd int
	produced   int
	inStep     bool
}

func oracle(m Model, arrivals []arrival) []token {
	d := &dumb{base: int(m.DecodeStep / tick), per: int(m.DecodeStepPerRequest / tick), most: m.MaxRunning, stepEnd: -1}
	byNumber := map[int]*dumbSeq{}
	events := timeline(arrivals, nil)
	for now := 0; len(events) > 0 || d.busy(); now++ {
		d.settle(now)
		for len(events) > 0 && events[0].at == now {
			ev := events[0]
			events = events[1:]
			if ev.cancel {
				byNumber[ev.seq].state = "gone"
			} else {
				s := &dumbSeq{arrival: arrivals[ev.seq], number: ev.seq, state: "waiting"}
				byNumber[ev.seq] = s
				d.seqs = append(d.seqs, s)
			}
			d.startPrefill(now)
			d.settle(now)
		}
	}
	return d.out
}

func (d *dumb) busy() bool {
	return d.count("gone") < len(d.seqs)
}

func (d *dumb) count(state string) int {
	n := 0
	for _, s := range d.seqs {
		if s.state == state {
			n++
		}
	}
	return n
}

// settle does what happens at a tick until nothing more does.
func (d *dumb) settle(now int) {
	for d.endPrefill(now) || d.startPrefill(now) || d.endStep(now) || d.beginStep(now) {
	}
}

func (d *dumb) endPrefill(now int) bool {
	for _, s := range d.seqs {
		if s.state == "prefill" && s.prefillEnd == now {
			s.state = "decode"
			d.give(s, now)
			return true
		}
	}
	return false
}

func (d *dumb) startPrefill(now int) bool {
	if d.count("prefill") > 0 || d.count("decode") >= d.most {
		return false
	}
	for _, s := range d.seqs {
		if s.state == "waiting" {
			s.state, s.prefillEnd = "prefill", now+s.Prompt
			return true
		}
	}
	return false
}

func (d *dumb) endStep(now int) bool {
	if d.stepEnd != now {
		return false
	}
	d.stepEnd = -1
	for _, s := range d.seqs {
		if s.inStep && s.state == "decode" {
			d.give(s, now)
		}
		s.inStep = false
	}
	return true
}

func (d *dumb) beginStep(now int) bool {
	n := d.count("decode")
	if d.stepEnd >= 0 || n == 0 {
		return false
	}
	for _, s := range d.seqs {
		s.inStep = s.state == "decode"
	}
	d.stepEnd = now + d.base + (n-1)*d.per
	return true
}

func (d *dumb) give(s *dumbSeq, now int) {
	s.produced++
	d.out = append(d.out, token{s.number, s.produced, now})
	if s.produced == s.Output {
		s.state = "gone"
	}
}
