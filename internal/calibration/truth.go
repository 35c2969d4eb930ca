package calibration

import (
	"bytes"

	"github.com/spate-load/spate/clock"
)

// sentMark precedes the time at which the simulator sent a frame.
var sentMark = []byte(`"sent_ns":`)

// sentAt reads the true send time from a frame's data, or returns false if there is none. The time is the last field,
// so sentAt searches from the end; the text of a frame is the simulator's own and never contains the mark. sentAt does
// not allocate.
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
