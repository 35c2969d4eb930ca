package simulator

// queue holds waiting sequences first come, first served. One that is dropped stays in its place until it comes to the front, so that
// dropping costs nothing.
type queue struct {
	seqs []*sequence
	head int
	live int
}

func (q *queue) push(s *sequence) {
	s.phase = waiting
	q.seqs = append(q.seqs, s)
	q.live++
}

func (q *queue) drop(s *sequence) {
	s.phase = departed
	q.live--
}

func (q *queue) pop() (*sequence, bool) {
	for q.head < len(q.seqs) {
		s := q.seqs[q.head]
		q.seqs[q.head] = nil
		q.head++
		if s.phase == waiting {
			q.live--
			q.compact()
			return s, true
		}
	}
	q.compact()
	return nil, false
}

// compact moves the sequences to the front once more than half of the slice is behind the head: each is moved once on average.
func (q *queue) compact() {
	if q.head*2 < len(q.seqs) {
		return
	}
	n := copy(q.seqs, q.seqs[q.head:])
	clear(q.seqs[n:])
	q.seqs, q.head = q.seqs[:n], 0
}
