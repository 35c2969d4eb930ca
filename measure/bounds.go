package measure

// Bounds of what an agent records. Whatever a server sends, a recorder stays within them, and the coordinator takes
// what is within them: both read this table, so that no answer of a server can make a snapshot that is refused. A
// request beyond the bounds fails with ERROR_CLASS_OUT_OF_RANGE.
const (
	// MaxTokens bounds each number of tokens that a server tells of one request: 16.8 million, where the longest
	// contexts hold 10 million.
	MaxTokens = 1 << 24
	// MaxFrames bounds the frames that are kept of one stream, so that its row fits into a snapshot.
	MaxFrames = 1 << 20
	// MaxAnswer bounds the bytes of the text of one answer: 32 GiB, where MaxFrames frames of log probabilities take 16
	// GiB.
	MaxAnswer = 1 << 35
	// MinStatus is the least HTTP status.
	MinStatus = 100
	// MaxStatus is the greatest number of three digits, which an HTTP status has.
	MaxStatus = 999
	// MaxWindowCount bounds a counter of one window and endpoint: MaxTokens of 2^18 requests, MaxAnswer of 2^7.
	MaxWindowCount = 1 << 42
	// MaxTotal bounds a counter of a stage. JSON numbers are exact up to 2^53.
	MaxTotal = 1 << 52
	// MaxValues bounds the values of one distribution in a snapshot. A histogram holds 2^44.
	MaxValues = 1 << 28
	// MaxText bounds the example of an error, and each text of a request's row, in bytes.
	MaxText = 512
	// MaxReason bounds why an agent ended its share, in bytes.
	MaxReason = 4096
	// MaxExamples is how many kinds of errors of one window and endpoint keep an example: servers can invent 900.
	MaxExamples = 16
)
