package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// setError records that the request has failed.
func (x *exchange) setError(class spatev1.ErrorClass, message string) {
	x.o.Err = &Error{Class: class, Message: x.client.secrets.Clean(message)}
	if x.o.End == 0 {
		x.o.End = clock.Now()
	}
}

// fail records that the request ended by an error of the network or of an HTTP library. If the caller's context has
// ended, the request was cancelled, not failed.
func (x *exchange) fail(err error) {
	x.o.End = clock.Now()
	if x.caller.Err() != nil {
		x.o.Cancelled = true
		return
	}
	class, message := x.classify(err)
	x.setError(class, message)
}

// classify returns the class and the message of an error. It goes by what happened on the connection, since net/http's
// errors are only texts.
func (x *exchange) classify(err error) (spatev1.ErrorClass, string) {
	if message := x.timeoutMessage(); message != "" {
		return spatev1.ErrorClass_ERROR_CLASS_TIMEOUT, x.withProgress(message)
	}
	if dial, ok := errors.AsType[*wire.DialError](err); ok {
		return dial.Class, dial.Error()
	}
	var w wire.RequestIO
	var alert, otherHTTP error
	if c := x.conn; c != nil {
		w, alert, otherHTTP = c.StateOf(x.io), c.TLSAlert(), c.OtherHTTPError()
		if c.Silent() {
			err = fmt.Errorf("%w; if the endpoint speaks only HTTP/2, set connection: {http: \"2\"}", err)
		}
	}
	reset, wasReset := errors.AsType[http2.StreamError](err)
	switch {
	case invalidStatus(err) != "":
		return spatev1.ErrorClass_ERROR_CLASS_OUT_OF_RANGE, invalidStatusMessage(invalidStatus(err))
	case otherHTTP != nil:
		return spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME, otherHTTP.Error()
	case alert != nil:
		return spatev1.ErrorClass_ERROR_CLASS_TLS, x.withProgress(alert.Error())
	case x.o.HTTPStatus == 0 && w.Written == 0:
		return spatev1.ErrorClass_ERROR_CLASS_CONNECT,
			fmt.Sprintf("the connection ended before the request was sent: %v", err)
	case w.Broken:
		return spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM,
			x.withProgress(fmt.Sprintf("the server ended the connection: %v", err))
	case wasReset:
		return spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM,
			x.withProgress(fmt.Sprintf("the server reset the stream: %v", reset.Code))
	}
	return spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME,
		x.withProgress(fmt.Sprintf("the response is not valid %s: %v", x.client.pool.Protocol(), err))
}

// invalidStatus returns a status that does not have three digits, from net/http's error. Empty: err is another error.
func invalidStatus(err error) string {
	_, quoted, _ := strings.Cut(err.Error(), "malformed HTTP status code ")
	status, err := strconv.Unquote(quoted)
	if err != nil || strings.Trim(status, "0123456789") != "" {
		return ""
	}
	return status
}

// invalidStatusMessage returns the message for an invalid status.
func invalidStatusMessage(status string) string {
	return fmt.Sprintf("the response has the invalid HTTP status %.40s", status)
}

// timeoutMessage returns which timeout ended the request. Empty: none did.
func (x *exchange) timeoutMessage() string {
	cause, limits := context.Cause(x.ctx), &x.client.patience
	switch {
	case errors.Is(cause, errRequestTimeout):
		return fmt.Sprintf("request timeout after %v", x.client.timeout)
	case errors.Is(cause, errFirstTokenTimeout):
		return fmt.Sprintf("first token timeout after %v", limits.first)
	case errors.Is(cause, errGapTimeout):
		return fmt.Sprintf("gap timeout: no event for %v", limits.gap)
	}
	return ""
}

// withProgress appends to a message how far the request had come.
func (x *exchange) withProgress(message string) string {
	switch {
	case x.o.HTTPStatus == 0:
		return message + "; no response received"
	case x.o.TokenFrames == 0:
		return message + "; no token received"
	}
	return fmt.Sprintf("%s; token frames received: %d", message, x.o.TokenFrames)
}

// patience bounds the silences of a stream. 0: not bounded.
type patience struct {
	first time.Duration // until its first token
	gap   time.Duration // from then on, until each next event
}

var (
	errFirstTokenTimeout = errors.New("first token timeout")
	errGapTimeout        = errors.New("gap timeout")
)

// watch cancels a request whose stream is silent for too long. An event costs only an atomic store: when the timer
// fires it looks at the time of the last event, and waits on if that is recent.
type watch struct {
	patience
	ctx    context.Context // ends with errFirstTokenTimeout or errGapTimeout
	end    context.CancelCauseFunc
	timer  *time.Timer
	behind time.Duration             // how long the program has been behind; only onTimer uses it
	last   atomic.Int64              // time of the last event, from the first token on; 0: none
	conn   atomic.Pointer[wire.Conn] // of the request; nil: none yet
}

// unreadWait is how long onTimer waits for a program that is behind with reading before it looks again, and
// maxUnreadWait is the limit of the sum of such waits: a server that sends bytes without end, but no event, must not
// prevent the timeout.
const (
	unreadWait    = 5 * time.Millisecond
	maxUnreadWait = time.Second
)

// watch starts a watch for a request. The caller stops it.
func (p patience) watch(ctx context.Context, start clock.Instant) *watch {
	w := &watch{patience: p}
	w.ctx, w.end = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(time.Hour, w.onTimer)
	if p.first > 0 {
		w.timer.Reset(clock.Until(start.Add(p.first)))
	} else {
		w.timer.Stop()
	}
	return w
}

// sawEvent records that an event came at or after the first token.
func (w *watch) sawEvent(at clock.Instant) {
	first := w.last.Swap(int64(at)) == 0
	switch {
	case !first:
	case w.gap > 0:
		w.timer.Reset(w.gap)
	default:
		w.timer.Stop()
	}
}

// onTimer runs when the timer fires, which may be while the request ends.
func (w *watch) onTimer() {
	unread := w.unread()
	last := clock.Instant(w.last.Load()) // loaded after unread: what a sweeper has read is recorded by now
	switch {
	case w.ctx.Err() != nil:
		return
	case unread && w.behind < maxUnreadWait:
		w.behind += unreadWait
		w.timer.Reset(unreadWait)
		return
	case last == 0:
		w.end(errFirstTokenTimeout)
		return
	case w.gap == 0:
		return
	}
	if left := clock.Until(last.Add(w.gap)); left > 0 {
		w.timer.Reset(left)
		return
	}
	w.end(errGapTimeout)
}

// unread reports whether bytes have come that the program has not read yet. Then the program is late, not the server.
func (w *watch) unread() bool {
	c := w.conn.Load()
	return c != nil && c.Unread()
}

// stop ends the watch.
func (w *watch) stop() {
	w.timer.Stop()
	w.end(nil)
}
