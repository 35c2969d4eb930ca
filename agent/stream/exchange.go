package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// exchange is one request under way. What each frame touches comes first and lies together: with a thousand streams all
// of it comes from slow memory, so that each line of that counts.
type exchange struct {
	o       *Observation
	dialect dialect
	onToken func(at clock.Instant, tokens int)
	onFrame func(data []byte, at, seen clock.Instant)
	watch   *watch // nil: no wait is bounded but that for the whole
	lastAt  uint64 // number of the read that brought the last token frame
	counted uint64 // output tokens so far, by running usage
	reads   uint64 // that brought token frames
	blanks  uint64 // frames without text that may carry a token
	closing int    // number in Frames of the first frame that closes the stream, if no token followed; from 1, 0: none

	shared       bool // read lastAt is counted as coalesced
	done         bool // the stream said that it has ended
	begun        bool // a frame of output came
	silent       bool // a frame of output came without running usage
	decided      bool // which frames carried a token is decided
	inputTold    bool // the server told the tokens of the prompt
	outputTold   bool // those of the output
	thoughtTold  bool // and those of the reasoning
	keepAnswer   bool
	closingBlank bool // the closing frame has a field for text

	last   reading // that brought the last bytes of the stream
	events events
	growth growth // of the answer
	room   room

	closingRead  reading // that brought the closing frame
	beforeAnswer uint64  // output tokens before the answer, by running usage

	client  *Client
	caller  context.Context // the caller's
	ctx     context.Context // ends at the request timeout too
	end     context.CancelCauseFunc
	timer   *time.Timer // ends it
	payload *payload
	conn    *conn // nil: none yet
	wire    *wire
	kept    bool // the connection had been used before
}

const (
	// drainWait is how long a response may take to end after its stream has, so that the connection can be kept.
	drainWait = 100 * time.Millisecond
	// drainLimit is how many bytes it may take.
	drainLimit = 256 << 10
	// bodyLimit is the longest answer that is no stream, whatever was asked for.
	bodyLimit = 16 << 20
)

var (
	errRequestTimeout = errors.New("request timeout")
	// exchanges that are over, whose memory is taken again.
	exchanges = sync.Pool{New: func() any { return new(exchange) }}
)

// Do sends one request and blocks until its response has ended, in whatever way. What happened is in o.
func (c *Client) Do(ctx context.Context, r Request, o *Observation) {
	o.reset()
	o.Start = clock.Now()
	x := exchanges.Get().(*exchange) //nolint:forcetypeassert // the pool holds nothing else
	defer x.release()
	x.reset(c, o)
	x.caller, x.onToken, x.onFrame, x.keepAnswer = ctx, r.OnToken, r.OnFrame, r.KeepAnswer
	x.room = c.roomFor(r.Tokens)
	if c.patience != (patience{}) {
		x.watch = c.patience.watch(ctx, o.Start)
		defer x.watch.stop()
		ctx = x.watch.ctx
	}
	x.ctx, x.end = context.WithCancelCause(ctx)
	defer x.end(nil)
	end := x.end // the exchange may be another request's when the timer fires after all
	x.timer = time.AfterFunc(c.timeout, func() { end(errRequestTimeout) })
	defer x.timer.Stop()
	response, err := x.roundTrip(r)
	if err != nil {
		x.fail(err)
	} else {
		x.receive(response)
		response.Body.Close()
	}
	x.finish()
}

// reset makes the exchange ready for a request.
func (x *exchange) reset(c *Client, o *Observation) {
	*x = exchange{client: c, dialect: c.dialect, o: o, events: x.events, room: c.roomFor(0)}
	x.events.reset()
}

// release lets go of everything but memory that the next request can use.
func (x *exchange) release() {
	x.events.reset()
	*x = exchange{events: x.events}
	exchanges.Put(x)
}

// finish takes down what the connection saw and gives everything back.
func (x *exchange) finish() {
	o := x.o
	all := x.payload.drop()
	if x.conn != nil {
		w := x.conn.record(x.wire)
		x.conn.take(x.wire)
		o.Connected, o.RTT, o.FirstByte = w.connected, w.rtt, w.first
		o.Connect, o.DNS, o.TCP, o.TLS = w.opened.whole, w.opened.dns, w.opened.tcp, w.opened.tls
		if all {
			o.Sent = w.end()
		}
	}
	x.decide()
	if !o.Usage {
		o.OutputTokens = o.TokenFrames
	}
	o.Answer = mend(o.Answer)
	if o.End == 0 {
		o.End = clock.Now()
	}
	x.client.memory.give(x.room.taken)
}

// receive takes in the response.
func (x *exchange) receive(r *http.Response) {
	coding := r.Header.Get("Content-Encoding")
	if r.StatusCode < measure.MinStatus || r.StatusCode > measure.MaxStatus {
		x.failed(spatev1.ErrorClass_ERROR_CLASS_OUT_OF_RANGE, noStatus(fmt.Sprintf("%03d", r.StatusCode)))
		return
	}
	x.o.HTTPStatus = r.StatusCode
	switch {
	case r.StatusCode != http.StatusOK:
		x.refusal(r)
	case coding != "" && !strings.EqualFold(coding, "identity"):
		x.failed(spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME, "the response is compressed ("+coding+
			"), which was not asked for")
	case strings.Contains(r.Header.Get("Content-Type"), "json"):
		x.whole(r.Body)
	default:
		x.stream(r.Body)
	}
}

// refusal takes in a response with another status than 200.
func (x *exchange) refusal(r *http.Response) {
	message := make([]byte, 8*messageLimit) // more than is kept: what is a secret must not be cut before it is found
	n, err := io.ReadFull(r.Body, message)
	x.o.End = x.conn.arrival(x.wire).at
	if x.caller.Err() != nil {
		x.fail(err)
		return
	}
	x.failed(spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS, x.client.refused(r)+": "+string(message[:n]))
	x.o.Err.HTTPStatus = r.StatusCode
	if err == nil {
		x.discard(r.Body)
	}
}

// whole takes in an answer that is one JSON body, from a server that does not stream.
func (x *exchange) whole(body io.Reader) {
	data, err := x.readAll(body, x.room.whole)
	defer recycle(data)
	read := x.conn.arrival(x.wire)
	x.o.Whole = true
	switch {
	case x.o.Err != nil:
		return
	case err != nil:
		x.fail(err)
		return
	case len(data) > x.room.whole:
		x.runaway(fmt.Sprintf("the answer, in one piece, is longer than %d KiB", x.room.whole>>10))
		return
	}
	x.done = true
	if x.frame(data, read) {
		x.complete(read.at)
	}
}

// stream takes in the frames as they come.
func (x *exchange) stream(body io.Reader) {
	var err error
	if b, ok := body.(*http1Body); ok {
		err = b.follow(x.wire, x)
	} else {
		err = x.pull(body)
	}
	switch {
	case x.o.Err != nil:
	case x.done:
		x.complete(x.o.End)
	default:
		x.ended(err, x.last)
	}
}

// pull takes in the frames of a body that has to be read, until it has ended or nothing more of it is needed.
func (x *exchange) pull(body io.Reader) error {
	for {
		n, err := body.Read(x.events.space())
		x.events.read(n)
		x.last = x.conn.arrival(x.wire)
		switch {
		case !x.came(n), !x.frames(x.last), !x.weigh(0):
			x.discard(body)
			return nil
		case err != nil:
			return err
		}
	}
}

// take implements follower.
func (x *exchange) take(data []byte, by reading) (more bool) {
	x.last = by
	if !x.came(len(data)) {
		return false
	}
	if event, ok := x.events.whole(data); ok {
		return x.event(event, by) && !x.done
	}
	x.events.lend(data)
	more = x.frames(by)
	x.events.settle()
	return more && x.weigh(0)
}

// drain implements follower.
func (x *exchange) drain() int {
	x.timer.Reset(drainWait)
	return drainLimit
}

// frames takes in all frames that are complete. It is false if the stream is over, or has failed.
func (x *exchange) frames(by reading) (more bool) {
	for {
		data, ok := x.events.next()
		if !ok {
			break
		}
		if !x.event(data, by) || x.done {
			return false
		}
	}
	if err := x.events.err; err != nil {
		x.failed(spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME, err.Error())
		return false
	}
	return true
}

var doneMark = []byte("[DONE]")

// event takes in the data of one event. It is false if the stream has failed.
func (x *exchange) event(data []byte, read reading) bool {
	if len(data) < 16 && bytes.Equal(bytes.TrimSpace(data), doneMark) {
		x.done = true
		x.o.End = read.at
		return true
	}
	if x.onFrame != nil {
		x.onFrame(data, read.at, read.seen)
	}
	sound := x.frame(data, read)
	if x.watch != nil && x.o.FirstToken != 0 {
		x.watch.heard(read.seen)
	}
	return sound
}

// ended takes in the end of a body that came without [DONE]. A stream that gave its finish reason and ended in order is
// complete, and so is one of an API that has neither.
func (x *exchange) ended(err error, read reading) {
	if !errors.Is(err, io.EOF) {
		x.fail(err)
		return
	}
	if data, ok := x.events.last(); ok && !x.event(data, read) {
		return
	}
	switch {
	case x.events.err != nil:
		x.failed(spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME, x.events.err.Error())
	case x.done || x.o.FinishReason != "" || x.dialect.traits().unmarked:
		x.complete(read.at)
	default:
		x.failed(spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM,
			x.progress("the response ended without [DONE] and without a finish reason"))
	}
}

// complete takes in the end of a stream that was complete.
func (x *exchange) complete(at clock.Instant) {
	x.o.End = at
	x.decide()
	if x.o.TokenFrames == 0 {
		reason := x.o.FinishReason
		if reason == "" {
			reason = "none"
		}
		x.failed(spatev1.ErrorClass_ERROR_CLASS_EMPTY_OUTPUT, "the stream ended without a token; finish reason: "+
			reason)
	}
}

// discard reads what is left of a response, within limits, so that the connection can be kept.
func (x *exchange) discard(body io.Reader) { _, _ = io.CopyN(io.Discard, body, int64(x.drain())) }
