package simulator

import (
	"cmp"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/simulator/config"
	"github.com/spate-load/spate/simulator/wire"
)

// Record is the truth about one request. Instants are those of clock.Now. An instant that never came is 0 and left out
// of the JSON.
type Record struct {
	// RequestID is the request's X-Request-Id, or an ID that the simulator made up.
	RequestID string `json:"request_id"`
	// Endpoint is the number of the endpoint, and Replica that of the engine behind it, from 0. Replica is 0 with
	// disaggregated serving.
	Endpoint int `json:"endpoint"`
	Replica  int `json:"replica"`
	// Status is the HTTP status that was sent, 0 if none was sent.
	Status int `json:"status,omitempty"`
	// Stream reports whether the response was streamed. If not, the body is the only token frame.
	Stream bool `json:"stream"`
	// PromptTokens is the length of the prompt as the simulator counted it.
	PromptTokens int `json:"prompt_tokens"`
	// CachedTokens is how many prompt tokens the prefix cache had. It is left out of the JSON if it is 0, or if the
	// prefill did not end.
	CachedTokens int `json:"cached_tokens,omitempty"`
	// OutputTokens is how many tokens were sent, including those without text and those that are never streamed.
	OutputTokens int `json:"output_tokens"`
	// Arrived is when the last byte of the request reached this machine, however long the program took to accept its
	// connection and to read it. If the request was refused after its head, Arrived is that of the head. What a client
	// should see of the server counts from here. If a client sends another request before it has the answer, Arrived
	// may be that of the other request. ArrivedBy names the clock.
	Arrived   clock.Instant     `json:"arrived_ns"`
	ArrivedBy wire.ArrivalClock `json:"arrived_by"`
	// Received is when the program had read the whole request, or only its head if the request was refused before more
	// was read. The model starts here.
	Received clock.Instant `json:"received_ns"`
	// FirstToken and LastToken are when the first and the last token frame were sent, with or without text: just before
	// the write.
	FirstToken clock.Instant `json:"first_token_ns,omitempty"`
	LastToken  clock.Instant `json:"last_token_ns,omitempty"`
	// FirstProduced and LastProduced are when the model produced the first and the last token, streamed or not. They
	// are left out if the model did not get there.
	FirstProduced clock.Instant `json:"first_produced_ns,omitempty"`
	LastProduced  clock.Instant `json:"last_produced_ns,omitempty"`
	// Ended is when the handler finished.
	Ended clock.Instant `json:"ended_ns"`
	// Tokens are the send times of all token frames, if Truth.Tokens is set.
	Tokens []clock.Instant `json:"tokens_ns,omitempty"`
	// FinishReason is "length" or "stop", empty if the output did not end.
	FinishReason string `json:"finish_reason,omitempty"`
	// Fault is the fault that struck the request, empty if none did.
	Fault config.FaultKind `json:"fault,omitempty"`
	// Cancelled reports whether the client left, or the simulator closed, before the output had ended.
	Cancelled bool `json:"cancelled,omitempty"`
}

// sent records a write of token frames.
func (r *Record) sent(at clock.Instant, tokens, frames int, all bool) {
	r.FirstToken, r.LastToken = cmp.Or(r.FirstToken, at), at
	r.OutputTokens += tokens
	for range frames {
		if !all {
			return
		}
		r.Tokens = append(r.Tokens, at)
	}
}

// truthLog keeps the records as Truth configures.
type truthLog struct {
	keep bool
	log  io.Writer

	mu      sync.Mutex
	records []Record
	failed  bool // the log could not be written, and this was reported
}

func newTruthLog(t config.Truth) *truthLog { return &truthLog{keep: t.Keep, log: t.Log} }

// wanted reports whether records are kept or logged.
func (l *truthLog) wanted() bool { return l.keep || l.log != nil }

func (l *truthLog) add(r *Record) {
	if !l.wanted() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keep {
		l.records = append(l.records, *r)
	}
	if l.log != nil {
		l.write(r)
	}
}

// write appends one line. A log that cannot be written must not fail requests: the error is logged once.
func (l *truthLog) write(r *Record) {
	line, err := json.Marshal(r)
	if err == nil {
		_, err = l.log.Write(append(line, '\n'))
	}
	if err != nil && !l.failed {
		l.failed = true
		slog.Error("the simulator's truth log cannot be written: records are missing from it", "error", err)
	}
}

// received records that the request, or its head, has been read.
func (r *Record) received(q *http.Request) {
	r.Received = clock.Now()
	r.Arrived, r.ArrivedBy = wire.ArrivalOf(q, r.Received)
}
