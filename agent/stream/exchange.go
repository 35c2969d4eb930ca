package stream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spate-load/spate/agent/stream/socket"
	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/jsonscan"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// exchange is one request in flight. The fields that each frame touches come first, next to each other: with a thousand
// streams they are not in the cache, so each cache line counts.
type exchange struct {
	o             *Observation
	api           *api.API
	onToken       func(at clock.Instant, tokens int)
	onFrame       func(data []byte, at, seen clock.Instant)
	watch         *watch // nil: only the request timeout bounds the request
	lastRead      uint64 // number of the read that brought the last token frame
	runningTokens uint64 // output tokens so far, by running usage
	reads         uint64 // reads that brought token frames
	undecided     uint64 // frames without text that may carry a token
	piece         uint64 // the start of the last frame's text
	pieceLength   int    // and its length
	same          uint32 // frames in a row with that text
	closing       int    // position in Frames, from 1, of the first closing frame; 0: none, or a token followed it

	coalesced          bool // read lastRead is counted as coalesced
	done               bool // the end of the stream was received
	begun              bool // a frame of output was received
	noRunningUsage     bool // a frame of output was received without running usage
	decided            bool // decide has run
	hasInput           bool // the server reported the prompt tokens
	hasOutput          bool // and the output tokens
	hasReasoningTokens bool // and the reasoning tokens
	keepAnswer         bool
	closingEmptyText   bool // the closing frame has a field for text

	modelKnown bool // the answer named its model

	room   room
	last   socket.Reading // the read that brought the last bytes of the stream
	events eventReader
	growth api.Growth // of the answer

	closingRead  socket.Reading // the read that brought the closing frame
	beforeAnswer uint64         // output tokens before the answer, by running usage

	client  *Client
	caller  context.Context // the caller's context
	ctx     context.Context // also ends at the request timeout
	end     context.CancelCauseFunc
	timer   *time.Timer // ends ctx at the request timeout
	payload *payload
	conn    *wire.Conn // nil: none yet
	io      *wire.RequestIO
	reused  bool // the connection had been used before
}

const (
	// drainWait is how long a response may take to end after its stream has ended, so that the connection can be kept.
	drainWait = 100 * time.Millisecond
	// drainLimit is how many more bytes such a response may have.
	drainLimit = 256 << 10
	// bodyLimit is the longest answer in one piece, however many tokens were asked for.
	bodyLimit = 16 << 20
)

var (
	errRequestTimeout = errors.New("request timeout")
	// exchanges holds exchanges that have ended, for reuse.
	exchanges = sync.Pool{New: func() any { return new(exchange) }}
)

// Do sends one request and blocks until its response has ended or failed. It records what happened in o.
func (c *Client) Do(ctx context.Context, r Request, o *Observation) {
	o.reset()
	o.Start = clock.Now()
	x := exchanges.Get().(*exchange) //nolint:forcetypeassert // the pool holds nothing else
	defer x.release()
	x.reset(c, r, o)
	x.caller = ctx
	if c.patience != (patience{}) {
		x.watch = c.patience.watch(ctx, o.Start)
		defer x.watch.stop()
		ctx = x.watch.ctx
	}
	x.ctx, x.end = context.WithCancelCause(ctx)
	defer x.end(nil)
	end := x.end // when the timer fires late, x may belong to another request
	x.timer = time.AfterFunc(c.timeout, func() { end(errRequestTimeout) })
	defer x.timer.Stop()
	if response, err := x.roundTrip(r); err != nil {
		x.fail(err)
	} else {
		x.receive(response)
		response.Body.Close()
	}
	x.finish()
}

// reset prepares the exchange for a request.
func (x *exchange) reset(c *Client, r Request, o *Observation) {
	*x = exchange{client: c, api: c.dialect.API, o: o, events: x.events, room: c.roomFor(r.Tokens),
		onToken: r.OnToken, onFrame: r.OnFrame, keepAnswer: r.KeepAnswer}
	x.events.Reset(c.dialect.Framing)
	o.WholeAsked = c.dialect.Whole
}

// release returns the exchange to the pool. It keeps only memory that the next request can use.
func (x *exchange) release() {
	x.events.Reset(0)
	*x = exchange{events: x.events}
	exchanges.Put(x)
}

// finish records what the connection saw and releases the memory that the exchange has reserved.
func (x *exchange) finish() {
	o := x.o
	all := x.payload.drop()
	if x.conn != nil {
		w := x.conn.StateOf(x.io)
		x.conn.EndRequest(x.io)
		o.Connected, o.RTT, o.FirstByte = w.Connected, w.RTT, w.FirstByte
		o.LateEnd, o.PreviousLate = w.LateEnd, w.PreviousLate
		o.Connect, o.DNS, o.TCP, o.TLS = w.OpenTimes.Total, w.OpenTimes.DNS, w.OpenTimes.TCP, w.OpenTimes.TLS
		if all {
			o.Sent = w.End()
		}
	}
	x.decide()
	switch o.UncountedOutput = o.WholeAnswer && !x.hasOutput; {
	case o.Usage, o.WholeAnswer && x.hasOutput:
	case o.UncountedOutput:
		o.OutputTokens = 0
	default:
		o.OutputTokens = o.TokenFrames
	}
	o.Answer = jsonscan.Repair(o.Answer)
	if o.End == 0 {
		o.End = clock.Now()
	}
	x.client.memory.release(x.room.reserved)
}

// receive handles the response.
func (x *exchange) receive(r *http.Response) {
	coding := r.Header.Get("Content-Encoding")
	if r.StatusCode < measure.MinStatus || r.StatusCode > measure.MaxStatus {
		x.setError(spatev1.ErrorClass_ERROR_CLASS_OUT_OF_RANGE, invalidStatusMessage(fmt.Sprintf("%03d", r.StatusCode)))
		return
	}
	x.o.HTTPStatus = r.StatusCode
	switch {
	case r.StatusCode != http.StatusOK:
		x.refusal(r)
	case coding != "" && !strings.EqualFold(coding, "identity"):
		x.setError(spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME, "the response is compressed ("+coding+
			"), which was not asked for")
	case x.wholeComes(r.Header.Get("Content-Type")):
		x.wholeAnswer(r.Body)
	default:
		x.stream(r.Body)
	}
}

// wholeComes reports whether a response of a type is an answer in one piece. A server may stream although it was not
// asked to, and may send one JSON body although it was asked to stream.
func (x *exchange) wholeComes(contentType string) bool {
	if x.api.Whole {
		return !strings.Contains(contentType, "event-stream")
	}
	return strings.Contains(contentType, "json") && x.api.Framing != api.JSONLines
}

// refusal handles a response with a status other than 200.
func (x *exchange) refusal(r *http.Response) {
	message := make([]byte, 8*messageLimit) // more than is kept: a secret cut in half would not be found
	n, err := io.ReadFull(r.Body, message)
	x.o.End = x.conn.Arrival(x.io).At
	if x.caller.Err() != nil {
		x.fail(err)
		return
	}
	text := bodyExcerpt([]byte(words.Message(string(message[:n]))))
	if n == 0 {
		text = " with an empty body"
	}
	x.setError(spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS, x.client.pool.Status(r)+text)
	x.o.Err.HTTPStatus = r.StatusCode
	if err == nil {
		x.discard(r.Body)
	}
}

// wholeAnswer handles an answer that is one JSON body.
func (x *exchange) wholeAnswer(body io.Reader) {
	data, err := x.readAll(body, x.room.maxBody)
	defer recycle(data)
	read := x.conn.Arrival(x.io)
	x.o.WholeAnswer = true
	switch {
	case x.o.Err != nil:
		return
	case err != nil:
		x.fail(err)
		return
	case len(data) > x.room.maxBody:
		x.runaway(fmt.Sprintf("the answer, in one piece, is longer than %d KiB", x.room.maxBody>>10))
		return
	}
	x.done = true
	if x.frame(data, read) {
		x.complete(read.At)
	}
}

// stream handles the frames as they arrive.
func (x *exchange) stream(body io.Reader) {
	var err error
	if b, ok := body.(*wire.HTTP1Body); ok {
		err = b.Follow(x.io, x)
	} else {
		err = x.pull(body)
	}
	switch {
	case x.o.Err != nil:
	case x.done:
		x.complete(x.o.End)
	default:
		x.bodyEnded(err, x.last)
	}
}

// pull reads a body and handles its frames, until the body has ended or no more of it is needed.
func (x *exchange) pull(body io.Reader) error {
	for {
		n, err := body.Read(x.events.Space())
		x.events.Filled(n)
		x.last = x.conn.Arrival(x.io)
		switch {
		case !x.countBytes(n), !x.frames(x.last), !x.reserve(0):
			x.discard(body)
			return nil
		case err != nil:
			return err
		}
	}
}

// Consume implements wire.Follower.
func (x *exchange) Consume(data []byte, by socket.Reading) (more bool) {
	x.last = by
	if !x.countBytes(len(data)) {
		return false
	}
	if event, ok := x.events.SingleEvent(data); ok {
		return x.event(event, by) && !x.done
	}
	x.events.Attach(data)
	more = x.frames(by)
	x.events.Detach()
	return more && x.reserve(0)
}

// frames handles all complete frames. It returns false if the stream has ended or failed.
func (x *exchange) frames(by socket.Reading) (more bool) {
	for {
		data, ok := x.events.Next()
		if !ok {
			break
		}
		if !x.event(data, by) || x.done {
			return false
		}
	}
	if err := x.events.Err; err != nil {
		x.setError(spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME, err.Error())
		return false
	}
	return true
}

var doneMark = []byte("[DONE]")

// event handles the data of one event. It returns false if the stream has failed.
func (x *exchange) event(data []byte, read socket.Reading) bool {
	if len(data) < 16 && bytes.Equal(bytes.TrimSpace(data), doneMark) {
		x.done = true
		x.o.End = read.At
		return true
	}
	if x.onFrame != nil {
		x.onFrame(data, read.At, read.Seen)
	}
	ok := x.frame(data, read)
	if x.watch != nil && x.o.FirstToken != 0 {
		x.watch.sawEvent(read.Seen)
	}
	return ok
}

// bodyEnded handles the end of a body without [DONE]. The stream is complete if the body ended in order and a finish
// reason came, or if the API has neither [DONE] nor finish reasons.
func (x *exchange) bodyEnded(err error, read socket.Reading) {
	if !errors.Is(err, io.EOF) {
		x.fail(err)
		return
	}
	if data, ok := x.events.Last(); ok && !x.event(data, read) {
		return
	}
	switch {
	case x.events.Err != nil:
		x.setError(spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME, x.events.Err.Error())
	case x.done || x.o.FinishReason != "" || x.api.NoEndMark:
		x.complete(read.At)
	default:
		x.setError(spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM,
			x.withProgress("the response ended without [DONE] and without a finish reason"))
	}
}

// complete records the end of a complete stream.
func (x *exchange) complete(at clock.Instant) {
	x.o.End = at
	x.decide()
	if x.o.TokenFrames == 0 {
		x.setError(spatev1.ErrorClass_ERROR_CLASS_EMPTY_OUTPUT, "the stream ended without a token; finish reason: "+
			cmp.Or(x.o.FinishReason, "none"))
	}
}

// discard reads the rest of a response, within limits, so that the connection can be kept.
func (x *exchange) discard(body io.Reader) {
	x.timer.Reset(drainWait)
	_, _ = io.CopyN(io.Discard, body, drainLimit)
}
