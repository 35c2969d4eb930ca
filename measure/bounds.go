package measure

import spatev1 "github.com/spate-load/spate/proto/spate/v1"

// Bounds of what an agent records. Whatever a server sends, a recorder stays within these bounds, and the coordinator
// accepts what is within them. Both use this table, so that no server can cause a snapshot that is refused. A request
// beyond the bounds fails with ERROR_CLASS_OUT_OF_RANGE.
const (
	// MaxTokens bounds each token count that a server reports for one request: 16.8 million. The longest contexts hold
	// 10 million.
	MaxTokens = 1 << 24
	// MaxFrames bounds the frames that are kept of one stream, so that its request row fits into a snapshot.
	MaxFrames = 1 << 20
	// MaxAnswer bounds the text of one answer, in bytes: 32 GiB. MaxFrames frames of log probabilities take 16 GiB.
	MaxAnswer = 1 << 35
	// MaxWindow is the last window of the longest stage: a week of load, a day of warm-up, a day of drain, and a
	// request of an hour.
	MaxWindow = (7+1+1)*86400 + 3600
	// MinStatus is the smallest HTTP status.
	MinStatus = 100
	// MaxStatus is the largest HTTP status: the largest number of three digits.
	MaxStatus = 999
	// MaxWindowCount bounds a counter of one window and endpoint. It is MaxTokens for each of 2^18 requests, or
	// MaxAnswer for each of 2^7.
	MaxWindowCount = 1 << 42
	// MaxTotal bounds a counter of a stage. JSON numbers are exact up to 2^53.
	MaxTotal = 1 << 52
	// MaxValues bounds the values of one distribution in a snapshot. A histogram holds 2^44.
	MaxValues = 1 << 28
	// MaxText bounds the example of an error, and each text of a request row, in bytes.
	MaxText = 512
	// MaxModels is how many models that answers name an agent knows by name in a stage. All others are OtherModels.
	MaxModels = 8
	// MaxReason bounds the reason why an agent ended its share, in bytes.
	MaxReason = 4096
	// MaxExamples is how many kinds of errors of one window and endpoint keep an example. Servers can invent 900 kinds.
	MaxExamples = 16
)

// FirstWindow returns the first window that a snapshot covers: its only window, unless its agent merged several.
func FirstWindow(s *spatev1.Snapshot) uint32 {
	if s.FirstWindow == nil {
		return s.GetWindow()
	}
	return min(s.GetFirstWindow(), s.GetWindow())
}
