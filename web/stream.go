package web

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// keepAlive is how often a stream without events gets a comment, so that proxies do not close it, and viewers who have
// gone are noticed.
const keepAlive = 15 * time.Second

// stream is an answer by server-sent events. It ends with its request, with the server, or if its viewer takes longer
// than pieceTimeout to read.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
	close   func() // gives the slot back
}

// open takes the slot of a stream. It answers and returns false if there is none. The caller calls close.
func (s *Server) open(w http.ResponseWriter, r *http.Request) (out *stream, ok bool) {
	viewer, most := s.viewerOf(r), maxStreams
	if s.held.take(viewer, s.perViewer) {
		select {
		case s.streams <- struct{}{}:
			return &stream{w: w, control: http.NewResponseController(w), close: func() {
				<-s.streams
				s.held.give(viewer)
			}}, true
		default:
			s.held.give(viewer)
		}
	} else {
		most = s.perViewer
	}
	w.Header().Set("Retry-After", "10")
	problem(w, http.StatusServiceUnavailable, fmt.Sprintf("%d streams are open, the most that are served", most))
	return nil, false
}

// send sends text, which is whole events or comments.
func (s *stream) send(text []byte) error {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.Header().Set("X-Accel-Buffering", "no") // for nginx
	}
	deadline := time.Now().Add(pieceTimeout)
	if err := errors.Join(s.control.SetReadDeadline(time.Time{}), s.control.SetWriteDeadline(deadline)); err != nil {
		return err
	}
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.control.Flush()
}

// event formats a server-sent event. Carriage returns, which would end a line too, are dropped.
func event(id, kind string, data []byte) []byte {
	var b bytes.Buffer
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	b.WriteString("event: " + kind + "\n")
	for line := range bytes.Lines(data) {
		b.WriteString("data: ")
		b.Write(bytes.ReplaceAll(bytes.TrimRight(line, "\n"), []byte("\r"), nil))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// comment keeps a stream open.
var comment = []byte(": \n\n")

// sender passes the events of a run to a function.
type sender struct {
	grpc.ServerStream // nil: the coordinator uses only the methods below
	ctx               context.Context
	take              func(*spatev1.FollowRunResponse) error
}

// Context returns the context with which the stream ends.
func (s sender) Context() context.Context { return s.ctx }

// Send passes an event on.
func (s sender) Send(e *spatev1.FollowRunResponse) error { return s.take(e) }

// follow returns the events of a run, and the error or nil with which they ended. end ends them.
func (s *Server) follow(
	ctx context.Context, q *spatev1.FollowRunRequest,
) (events <-chan *spatev1.FollowRunResponse, ended <-chan error, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	out, over := make(chan *spatev1.FollowRunResponse), make(chan error, 1)
	go func() {
		defer close(over)
		defer func() {
			if fault := recover(); fault != nil { // on a goroutine of ours, which would end the program
				over <- s.faulted(fault)
			}
		}()
		over <- s.runs.FollowRun(q, sender{ctx: ctx, take: func(e *spatev1.FollowRunResponse) error {
			select {
			case out <- e:
				return nil
			case <-ctx.Done():
				return status.FromContextError(ctx.Err()).Err()
			}
		}})
	}()
	return out, over, func() {
		cancel()
		for range over { // closed when the stream has ended
		}
	}
}

// faulted logs a panic, on the goroutine that recovered from it, and returns it as an error.
func (s *Server) faulted(fault any) error {
	s.log.Error("internal fault while a run was shown", "fault", fault, "stack", string(debug.Stack()))
	return status.Errorf(codes.Internal, "an internal fault: %v; report it with the log", fault)
}

// firstComment is how long a stream without an event waits until it tells its reader that it is open.
const firstComment = 200 * time.Millisecond

// followRun streams the events of a run. A reader that has seen the end of a run gets 204, which tells an EventSource
// not to connect again.
func (s *Server) followRun(w http.ResponseWriter, r *http.Request) {
	after, err1 := lastEvent(r)
	windows, err2 := flag(r, "windows")
	if err := cmp.Or(err1, err2); err != nil {
		failed(w, err)
		return
	}
	out, ok := s.open(w, r)
	if !ok {
		return
	}
	defer out.close()
	events, ended, end := s.follow(r.Context(),
		&spatev1.FollowRunRequest{RunId: r.PathValue("id"), After: after, Windows: windows})
	defer end()
	s.copy(out, events, ended, r)
}

// copy writes events until they end.
func (s *Server) copy(out *stream, events <-chan *spatev1.FollowRunResponse, ended <-chan error, r *http.Request) {
	wait := time.NewTimer(firstComment)
	defer wait.Stop()
	for {
		var text []byte
		select {
		case e := <-events:
			data, err := format.Marshal(e.GetEvent())
			if err != nil {
				s.log.Error("event of a run cannot be written", "error", err)
				return
			}
			text = event(strconv.FormatUint(e.GetNumber(), 10), kindOf(e.GetEvent()), data)
		case err := <-ended:
			switch {
			case out.begun: // the reader connects again, and then learns why
			case err != nil:
				failed(out.w, err)
			default:
				out.w.WriteHeader(http.StatusNoContent)
			}
			return
		case <-wait.C:
			text = comment
		case <-r.Context().Done():
			return
		case <-s.closing:
			if !out.begun {
				failed(out.w, status.Error(codes.Unavailable, "the server is closing"))
			}
			return
		}
		if err := out.send(text); err != nil {
			return
		}
		wait.Reset(keepAlive)
	}
}

// kindOf returns the name of an event's kind, such as stage_started.
func kindOf(e *spatev1.RunEvent) string {
	m := e.ProtoReflect()
	field := m.WhichOneof(m.Descriptor().Oneofs().ByName("event"))
	if field == nil {
		return "unknown"
	}
	return string(field.Name())
}

// lastEvent returns the number of the last event that a reader has.
func lastEvent(r *http.Request) (uint64, error) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		return number(r, "after", 64)
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, status.Errorf(codes.InvalidArgument, "Last-Event-ID %.40q: want the id of an event", text)
	}
	return n, nil
}
