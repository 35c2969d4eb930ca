package calibration

import (
	"bytes"

	"github.com/spate-load/spate/clock"
)

// sentMark is what the simulator writes before the time at which it sent a frame.
var sentMark = []byte(`"sent_ns":`)

// sentAt reads the true time of sending from a frame's data. It is the last field, so that it is looked for from the
// end; the text of a frame is the simulator's own and has no such mark. It is false if there is none. It does not
// allocate.
func sentAt(data []byte) (clock.Instant, bool) {
	from := bytes.LastIndex(data, sentMark)
	if from < 0 {
		return 0, false
	}
	digits, at := data[from+len(sentMark):], clock.Instant(0)
	n := 0
	for n < len(digits) && n < 18 && digits[n] >= '0' && digits[n] <= '9' {
		at = 10*at + clock.Instant(digits[n]-'0')
		n++
	}
	return at, n > 0
}
