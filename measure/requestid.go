package measure

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// RequestIDs makes the IDs of a stage's requests, which are sent as X-Request-Id. The zero RequestIDs is none.
//
// An ID says which request it is, so that results can be matched with a server's log: in hexadecimal digits,
//
//	RRRRRRRR-SSSS-4TTT-8tII-IIIIIIIIIIII
//
// R is the beginning of the SHA-256 of the run's ID, S the stage's index, T the turn in a session, with its highest
// digit at t, and I the request's index. It has the form of a UUID of version 4, because servers and proxies refuse or
// replace others: starlette-context, which llama-cpp-python uses, answers 400.
type RequestIDs struct{ prefix string }

// RequestIDsOf returns the IDs of a stage of a run. Plans have far fewer than 65,536 stages.
func RequestIDsOf(run string, stage uint32) RequestIDs {
	sum := sha256.Sum256([]byte(run))
	return RequestIDs{fmt.Sprintf("%x-%04x-4", sum[:4], uint16(stage))}
}

// Append appends the ID of a request and returns the extended slice. It does not allocate if b has room for 36 bytes.
func (s RequestIDs) Append(b []byte, index uint64, turn int) []byte {
	b = append(b, s.prefix...)
	b = appendHex(b, uint64(turn), 3)
	b = append(b, '-', '8')
	b = appendHex(b, uint64(turn)>>12, 1)
	b = appendHex(b, index>>48, 2)
	b = append(b, '-')
	return appendHex(b, index, 12)
}

// String returns the ID of a request.
func (s RequestIDs) String(index uint64, turn int) string { return string(s.Append(nil, index, turn)) }

// appendHex appends the lowest digits of a number.
func appendHex(b []byte, v uint64, digits int) []byte {
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[v>>shift&0xf])
	}
	return b
}

// Traced reports whether requests get a traceparent of their own: the headers of the plan have none.
func Traced(headers map[string]string) bool {
	for name := range headers {
		if strings.EqualFold(name, "traceparent") {
			return false
		}
	}
	return true
}

// AppendTraceID appends the trace ID of a request, 32 hexadecimal digits, and returns the extended slice: its ID
// without hyphens, which is unique. It does not allocate if b has room.
func AppendTraceID(b []byte, id string) []byte {
	for i := range len(id) {
		if id[i] != '-' {
			b = append(b, id[i])
		}
	}
	return b
}

// AppendTraceparent appends the value of a request's traceparent header as W3C's Trace Context has it, sampled, and
// returns the extended slice. The ID of the parent is the end of the trace's, which is never 0. It does not allocate if
// b has room.
func AppendTraceparent(b []byte, id string) []byte {
	b = AppendTraceID(append(b, "00-"...), id)
	b = append(append(b, '-'), b[len(b)-16:]...)
	return append(b, "-01"...)
}
