// Package requestid makes the IDs of requests, which Spate sends as X-Request-Id.
package requestid

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Stage makes the IDs of a stage's requests. The zero Stage is none.
//
// An ID says which request it is, so that results can be matched with a server's log: in hexadecimal digits,
//
//	RRRRRRRR-SSSS-4TTT-8tII-IIIIIIIIIIII
//
// R is the beginning of the SHA-256 of the run's ID, S the stage's index, T the turn in a session, with its highest
// digit at t, and I the request's index. It has the form of a UUID of version 4, because servers and proxies refuse or
// replace others: starlette-context, which llama-cpp-python uses, answers 400.
type Stage struct {
	prefix string
	run    uint32
	number uint16
}

// Of returns the IDs of a stage of a run. Plans have far fewer than 65,536 stages.
func Of(run string, stage uint32) Stage {
	sum := sha256.Sum256([]byte(run))
	s := Stage{run: binary.BigEndian.Uint32(sum[:]), number: uint16(stage)}
	s.prefix = fmt.Sprintf("%08x-%04x-4", s.run, s.number)
	return s
}

// Append appends the ID of a request and returns the extended slice. It does not allocate if b has room for 36 bytes.
func (s Stage) Append(b []byte, index uint64, turn int) []byte {
	b = append(b, s.prefix...)
	b = appendHex(b, uint64(turn), 3)
	b = append(b, '-', '8')
	b = appendHex(b, uint64(turn)>>12, 1)
	b = appendHex(b, index>>48, 2)
	b = append(b, '-')
	return appendHex(b, index, 12)
}

// String returns the ID of a request.
func (s Stage) String(index uint64, turn int) string { return string(s.Append(nil, index, turn)) }

// appendHex appends the lowest digits of a number.
func appendHex(b []byte, v uint64, digits int) []byte {
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[v>>shift&0xf])
	}
	return b
}

// Parse returns which request of a stage an ID names, and false if it is not an ID of the stage.
func (s Stage) Parse(id string) (index uint64, turn int, ok bool) {
	var run, stage, low, high, top, rest uint64
	n, err := fmt.Sscanf(id, "%08x-%04x-4%03x-8%01x%02x-%012x", &run, &stage, &low, &high, &top, &rest)
	index, turn = top<<48|rest, int(high<<12|low)
	return index, turn, err == nil && n == 6 && id == s.String(index, turn)
}
