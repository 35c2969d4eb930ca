package agent

import (
	"fmt"
	"strings"
	"sync"

	"github.com/spate-load/spate/agent/supervisor"
	"github.com/spate-load/spate/internal/reason"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// answers are what a session still has to tell the coordinator about assignments, in order. They are safe for
// concurrent use.
type answers struct {
	added chan struct{} // signals that there are answers

	mu      sync.Mutex
	waiting []*spatev1.ConnectRequest
}

// add adds an answer. It does not block.
func (a *answers) add(m *spatev1.ConnectRequest) {
	a.mu.Lock()
	a.waiting = append(a.waiting, m)
	a.mu.Unlock()
	select {
	case a.added <- struct{}{}:
	default: // already signalled
	}
}

// take returns the answers that were added since the last call.
func (a *answers) take() []*spatev1.ConnectRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.waiting
	a.waiting = nil
	return all
}

// Applied tells the coordinator that an assignment is ready. It does not block, and says nothing if the session has
// ended.
func (s *session) Applied(m *spatev1.Applied) {
	s.answers.add(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Applied{Applied: m}})
}

// Rejected tells the coordinator why an assignment was rejected. It does not block, and says nothing if the session has
// ended.
func (s *session) Rejected(ref *spatev1.AssignmentRef, kind spatev1.FailureKind, reason string) {
	supervisor.LoggerOf(ref, s.agent.config.Logger).Info("assignment rejected", "reason", reason)
	s.answers.add(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Rejected{Rejected: &spatev1.Rejected{
		Ref: ref, Reason: reason, Kind: kind,
	}}})
}

// Waiting tells the coordinator what a server that is not ready answers. It does not block, and says nothing if the
// session has ended.
func (s *session) Waiting(ref *spatev1.AssignmentRef, text string) {
	s.answers.add(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Waiting{Waiting: &spatev1.Waiting{
		Ref: ref, Text: text,
	}}})
}

// Measuring tells the coordinator when measuring begins. It does not block, and says nothing if the session has ended.
func (s *session) Measuring(m *spatev1.Measuring) {
	s.answers.add(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Measuring{Measuring: m}})
}

// sendAnswers sends answers until the session ends. An assignment that is ready waits until the clock is known, because
// its start depends on the clock.
func (s *session) sendAnswers() error {
	for {
		select {
		case <-s.answers.added:
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
		for _, m := range s.answers.take() {
			if a := m.GetApplied(); a != nil {
				if err := s.awaitClock(); err != nil {
					return err
				}
				o, _ := s.clock.Now()
				a.ClockOffsetNs, a.ClockUncertaintyNs = o.Nanos, o.Uncertainty.Nanoseconds()
			}
			if err := s.send(m); err != nil {
				return reason.Unsent(s.ctx, err)
			}
		}
	}
}

// connectError says why a session failed and what to do. Its cause is gRPC's error.
type connectError struct {
	address  string
	welcomed bool
	cause    error
}

// Error names the coordinator's address and what is wrong.
func (e *connectError) Error() string {
	text := reason.Of(e.cause)
	if text == reason.Broken && !e.welcomed {
		text = "closed the connection before its first message: see the coordinator's log; it may reject this " +
			"agent's certificate (another authority or role, see `spate certs --help`)"
	}
	return fmt.Sprintf("coordinator %s: %s", plainAddress(e.address), text)
}

// Unwrap returns gRPC's error.
func (e *connectError) Unwrap() error { return e.cause }

// plainAddress returns a gRPC target as a person would type it.
func plainAddress(target string) string {
	if i := strings.LastIndex(target, "/"); strings.Contains(target, "://") {
		return target[i+1:]
	}
	return target
}

// maxLoggedReasons bounds the reasons that are remembered. Beyond it all of them are forgotten, and logged again when
// they recur.
const maxLoggedReasons = 64

// loggedReasons are the reasons that were logged since the last stable session.
type loggedReasons map[string]bool

// isNew reports whether a reason has not been logged yet, and remembers it.
func (c *loggedReasons) isNew(err error) bool {
	text := err.Error()
	if (*c)[text] {
		return false
	}
	if *c == nil || len(*c) >= maxLoggedReasons {
		*c = loggedReasons{}
	}
	(*c)[text] = true
	return true
}
