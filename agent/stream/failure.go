package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/net/http2"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// failed ends the request with an error.
func (x *exchange) failed(class spatev1.ErrorClass, message string) {
	x.o.Err = &Error{Class: class, Message: x.client.secrets.clean(message)}
	if x.o.End == 0 {
		x.o.End = clock.Now()
	}
}

// fail ends the request with an error of the network or of net/http. The caller's own cancelling is none.
func (x *exchange) fail(err error) {
	x.o.End = clock.Now()
	if x.caller.Err() != nil {
		x.o.Cancelled = true
		return
	}
	class, message := x.classify(err)
	x.failed(class, message)
}

// classify says what kind of failure an error is. Which it is goes by what happened on the connection: net/http's
// errors are texts.
func (x *exchange) classify(err error) (spatev1.ErrorClass, string) {
	if message := x.impatience(); message != "" {
		return spatev1.ErrorClass_ERROR_CLASS_TIMEOUT, x.progress(message)
	}
	if dial, ok := errors.AsType[*dialError](err); ok {
		return dial.class, dial.Error()
	}
	var w wire
	var alert error
	if x.conn != nil {
		w, alert = x.conn.record(x.wire), x.conn.refusal()
	}
	if x.conn != nil && x.conn.silent() {
		err = fmt.Errorf("%w; if the endpoint speaks only HTTP/2, say connection: {http: \"2\"}", err)
	}
	reset, wasReset := errors.AsType[http2.StreamError](err)
	switch {
	case oddStatus(err) != "":
		return spatev1.ErrorClass_ERROR_CLASS_OUT_OF_RANGE, noStatus(oddStatus(err))
	case x.conn != nil && x.conn.spokeOther():
		return spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME, x.otherHTTP()
	case alert != nil:
		return spatev1.ErrorClass_ERROR_CLASS_TLS, x.progress(advised(alert, "").Error())
	case x.o.HTTPStatus == 0 && w.written == 0:
		return spatev1.ErrorClass_ERROR_CLASS_CONNECT,
			fmt.Sprintf("the connection ended before the request was sent: %v", err)
	case w.broken:
		return spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM,
			x.progress(fmt.Sprintf("the server ended the connection: %v", err))
	case wasReset:
		return spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM,
			x.progress(fmt.Sprintf("the server reset the stream: %v", reset.Code))
	}
	return spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME,
		x.progress(fmt.Sprintf("the response is no sound %s: %v", x.protocol(), err))
}

// oddStatus is a status of other than three digits, by what net/http says of it. Empty: the response had none.
func oddStatus(err error) string {
	_, quoted, _ := strings.Cut(err.Error(), "malformed HTTP status code ")
	status, err := strconv.Unquote(quoted)
	if err != nil || strings.Trim(status, "0123456789") != "" {
		return ""
	}
	return status
}

// noStatus says that a status is none.
func noStatus(status string) string {
	return fmt.Sprintf("the response has status %.40s, which HTTP does not have", status)
}

// impatience says which timeout ended the request. Empty: none did.
func (x *exchange) impatience() string {
	cause, limits := context.Cause(x.ctx), &x.client.patience
	switch {
	case errors.Is(cause, errRequestTimeout):
		return fmt.Sprintf("request timeout after %v", x.client.timeout)
	case errors.Is(cause, errFirstTokenTimeout):
		return fmt.Sprintf("first token timeout after %v", limits.first)
	case errors.Is(cause, errGapTimeout):
		return fmt.Sprintf("gap timeout: nothing came for %v", limits.gap)
	}
	return ""
}

// otherHTTP says that the endpoint speaks the other version of HTTP.
func (x *exchange) otherHTTP() string {
	if x.client.http2 != nil {
		return errNoHTTP2.Error()
	}
	return errOnlyHTTP2.Error()
}

// protocol is the version of HTTP that is spoken.
func (x *exchange) protocol() string {
	if x.client.http2 != nil {
		return "HTTP/2"
	}
	return "HTTP/1.1"
}

// progress adds how far the request had come.
func (x *exchange) progress(message string) string {
	switch {
	case x.o.HTTPStatus == 0:
		return message + "; no response had begun"
	case x.o.TokenFrames == 0:
		return message + "; no token had come"
	}
	return fmt.Sprintf("%s; %d frames with tokens had come", message, x.o.TokenFrames)
}
