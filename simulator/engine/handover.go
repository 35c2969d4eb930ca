package engine

// post makes a prefiller's finished prompts the next ones to be handed over, together, unless earlier ones are still
// being handed over. From here on the decoders wait for them.
func (e *engine) post(p *prefiller) {
	if len(p.posted) > 0 || len(p.finished) == 0 {
		return
	}
	p.posted, p.finished = p.finished, p.posted
	e.setHanding(p, true)
}

// finish ends the prefill of a prompt that will be handed over later.
func (e *engine) finish(p *prefiller) {
	p.cache.store(p.seq.Blocks)
	p.finished = append(p.finished, p.seq)
	e.freePrefill(p)
	e.post(p)
}

// beginTransfer starts handing over the posted prompts. Cancelled sequences take no time.
func (e *engine) beginTransfer(p *prefiller) {
	p.moving = true
	p.due = e.shares.at(e.now)
	for _, s := range p.posted {
		if s.phase == running {
			p.due += e.model.transferTime(s.Prompt)
		}
	}
}

func (e *engine) endTransfer(p *prefiller) {
	for _, s := range p.posted {
		if s.phase == running {
			e.handed.push(s, handed)
		}
	}
	p.moving, p.posted = false, p.posted[:0]
	e.setHanding(p, false)
	e.post(p)
}
