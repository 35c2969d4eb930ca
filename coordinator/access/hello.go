package access

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/measure"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Protocol is the version of the control stream that this coordinator speaks.
const Protocol = 2

// maxText bounds the texts that an agent or a client sends about itself, in bytes.
const maxText = 128

// CheckHello refuses agents that cannot take part. Its error is a status.
func CheckHello(h *spatev1.Hello) error {
	if h == nil {
		return status.Error(codes.InvalidArgument, "the first message must be a Hello")
	}
	a := h.GetAgent()
	switch {
	case h.GetProtocol() != Protocol:
		return status.Errorf(codes.FailedPrecondition,
			"the agent (%.40q) speaks protocol %d, this coordinator speaks %d: "+
				"use programs of the same version", a.GetVersion(), h.GetProtocol(), Protocol)
	case h.GetDefinitions() != measure.Definitions:
		return status.Errorf(codes.FailedPrecondition,
			"the agent (%.40q) measures by definitions %d, this coordinator by %d, and their numbers "+
				"cannot be added: use programs of the same version", a.GetVersion(), h.GetDefinitions(),
			measure.Definitions)
	case naming.CheckName(a.GetName()) != nil:
		return status.Errorf(codes.InvalidArgument, "agent name %v", naming.CheckName(a.GetName()))
	case h.GetIncarnation() == 0:
		return status.Error(codes.InvalidArgument, "the agent's incarnation must not be 0")
	case naming.CheckRegion(a.GetRegion()) != nil:
		return status.Errorf(codes.InvalidArgument, "agent %s: its region %.80q %v", a.GetName(), a.GetRegion(),
			naming.CheckRegion(a.GetRegion()))
	case len(a.GetLabels()) > naming.MaxLabels:
		return status.Errorf(codes.InvalidArgument, "agent %s: %d labels: want at most %d", a.GetName(),
			len(a.GetLabels()), naming.MaxLabels)
	case len(a.GetVersion()) > maxText || len(a.GetHost()) > 2*maxText:
		return status.Errorf(codes.InvalidArgument, "agent %s: version or host is longer than %d bytes",
			a.GetName(), maxText)
	}
	if err := checkLabels(a); err != nil {
		return err
	}
	return checkNumbers(a)
}

// checkLabels refuses labels that no selector can name. The region is not among them.
func checkLabels(a *spatev1.AgentInfo) error {
	for name, value := range a.GetLabels() {
		if err := naming.CheckLabel(name, value); err != nil || name == naming.RegionLabel {
			return status.Errorf(codes.InvalidArgument, "agent %s: label %.80q=%.80q is not valid", a.GetName(), name, value)
		}
	}
	return nil
}

// mostPerSecond is more than any machine can do of anything in a second. Greater numbers and NaN come from a fault or a
// forgery. They would break the weights of agents and the JSON output.
const mostPerSecond = 1e12

// checkNumbers refuses numbers that are not plausible.
func checkNumbers(a *spatev1.AgentInfo) error {
	for _, number := range []struct {
		name  string
		value float64
	}{
		{"max_rate", a.GetMaxRate()},
		{"capacity.frames_per_second", a.GetCapacity().GetFramesPerSecond()},
		{"capacity.starts_per_second", a.GetCapacity().GetStartsPerSecond()},
	} {
		if !(number.value >= 0 && number.value <= mostPerSecond) {
			return status.Errorf(codes.InvalidArgument, "agent %s: its %s is %v: want a number from 0 to %.0e",
				a.GetName(), number.name, number.value, mostPerSecond)
		}
	}
	if at := a.GetCapacity().GetMeasuredAt(); at != nil && !at.IsValid() {
		return status.Errorf(codes.InvalidArgument,
			"agent %s: its capacity.measured_at is not a time: run spate calibrate again", a.GetName())
	}
	return nil
}

// CheckHeartbeat refuses a heartbeat with a number that is not plausible. Its error is a status.
func CheckHeartbeat(h *spatev1.Heartbeat) error {
	if cores := h.GetCpuCores(); !(cores >= 0 && cores <= mostPerSecond) {
		return status.Errorf(codes.InvalidArgument, "a heartbeat with cpu_cores of %v: want a number from 0 to %.0e",
			cores, mostPerSecond)
	}
	return nil
}

// CheckClient refuses a client that would misread the run's numbers, because it has other definitions. Its error is a
// status.
func CheckClient(q *spatev1.SubmitRunRequest) error {
	switch d := q.GetDefinitions(); {
	case len(q.GetVersion()) > maxText:
		return status.Errorf(codes.InvalidArgument, "the client's version is longer than %d bytes", maxText)
	case d != 0 && d != measure.Definitions:
		return status.Errorf(codes.FailedPrecondition,
			"the client (%.40q) reads numbers by definitions %d, this coordinator measures by %d: "+
				"use programs of the same version", q.GetVersion(), d, measure.Definitions)
	}
	return nil
}
