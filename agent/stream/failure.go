package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

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
