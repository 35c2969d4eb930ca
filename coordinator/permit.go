package coordinator

import (
	"cmp"
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/coordinator/access"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// permit makes a status of the reason why a caller may not do something, counts and logs it. nil: the caller may.
func (c *Coordinator) permit(caller access.Caller, why error) error {
	if why == nil {
		return nil
	}
	c.admission.CallsRefused.Add(1)
	c.log.Warn("call refused", "who", caller.String(), "address", caller.Address, "reason", why)
	return status.Error(codes.PermissionDenied, why.Error())
}

// mayEnd returns an error if a caller may not stop or remove a run. Its error is a status.
func (c *Coordinator) mayEnd(caller access.Caller, id string) error {
	policy := c.cfg.Access.Policy()
	if policy == nil {
		return nil
	}
	found, err := c.find(id)
	if err != nil {
		return err
	}
	return c.permit(caller, policy.MayEnd(caller, found[0].GetSubmitter()))
}

// ReadAuditLog returns the newest of the entries that are asked for to an operator.
func (s runService) ReadAuditLog(
	ctx context.Context, q *spatev1.ReadAuditLogRequest,
) (*spatev1.ReadAuditLogResponse, error) {
	caller := access.CallerOf(ctx)
	if err := s.c.permit(caller, s.c.cfg.Access.Policy().MayOperate(caller)); err != nil {
		return nil, err
	}
	for _, name := range q.GetActions() {
		if err := access.CheckAction(name); err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
	}
	entries, err := s.c.audit.Newest(int(min(cmp.Or(q.GetLimit(), defaultListed), maxListed)), q)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "audit log: %v", err)
	}
	out := &spatev1.ReadAuditLogResponse{}
	for _, e := range entries {
		out.Entries = append(out.Entries, &spatev1.AuditEntry{
			Time: timestamppb.New(e.Time), Action: string(e.Action), By: e.By, Proof: string(e.Proof),
			Address: e.Address, Run: e.Run, Immediately: e.Immediately, Agents: e.Agents,
		})
	}
	return out, nil
}
