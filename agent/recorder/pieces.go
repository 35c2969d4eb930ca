package recorder

// breakAfter is how much work a sealer does without a break, in values counted into a histogram: some 20 us of work. A
// window of a busy agent takes milliseconds in total, and on an agent's only core nothing would start meanwhile.
const breakAfter = 2048

// The cost of a sealer's other work, in such values.
const (
	comparing = 4  // comparing two rows while sorting
	sizing    = 64 // measuring a row
)

// addWork adds to the sealer's work, and lets other goroutines go first when breakAfter is reached.
func (r *Recorder) addWork(n int) {
	if r.config.Yield == nil {
		return
	}
	if r.work += n; r.work >= breakAfter {
		r.work = 0
		r.config.Yield()
	}
}
