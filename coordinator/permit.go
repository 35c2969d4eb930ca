package coordinator

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/coordinator/access"
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
