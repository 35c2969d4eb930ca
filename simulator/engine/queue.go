package engine

// queue holds sequences of one phase, first come, first served. A dropped sequence keeps its place until it comes to
// the front, so that dropping costs nothing.
type queue struct {
	seqs []*Sequence
	head int
	live int
}

// push adds a sequence at the end, and sets the phase that all sequences of this queue have.
func (q *queue) push(s *Sequence, p phase) {
	s.phase = p
	q.seqs = append(q.seqs, s)
	q.live++
}

func (q *queue) drop(s *Sequence) {
	s.phase = departed
	q.live--
}

// front returns the first sequence that has not been dropped. There must be one.
func (q *queue) front() *Sequence {
	for q.seqs[q.head].phase == departed {
		q.seqs[q.head] = nil
		q.head++
	}
	return q.seqs[q.head]
}

// pop removes and returns the front.
func (q *queue) pop() *Sequence {
	s := q.front()
	q.seqs[q.head] = nil
	q.head++
	q.live--
	// The sequences are moved to the start of the slice once more than half of it lies before the head. Each is moved
	// once on average.
	if q.head*2 >= len(q.seqs) {
		n := copy(q.seqs, q.seqs[q.head:])
		clear(q.seqs[n:])
		q.seqs, q.head = q.seqs[:n], 0
	}
	return s
}
