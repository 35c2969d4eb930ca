package recorder

// piece is how much of its work a sealer does in a row, in values counted into a histogram: some 20 us of it. A window
// of a busy agent takes milliseconds on the whole, and on an agent's only core nothing would start in them.
const piece = 2048

// Other work of a sealer, in such values.
const (
	comparing = 4  // two rows, to sort them
	sizing    = 64 // a row
)

// worked takes in that the sealer has done some work, and lets others go first when it is a piece.
func (r *Recorder) worked(n int) {
	if r.config.GiveWay == nil {
		return
	}
	if r.work += n; r.work >= piece {
		r.work = 0
		r.config.GiveWay()
	}
}
