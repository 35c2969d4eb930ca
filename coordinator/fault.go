package coordinator

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/clock"
)

// A panic ends only the run or the call in which it happens. Other runs stay in the queue, and agents stay connected. A
// run that panics when a restarted coordinator reads it is left as it is.

// guarded calls do, and ends the run if do panics. c.mu is not held.
func (c *Coordinator) guarded(r *run, do func()) {
	defer func() {
		if fault := recover(); fault != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.faulted(r, fault)
		}
	}()
	do()
}

// recovered calls do, which is about a run that is not in progress, and returns a panic of do as an error.
func (c *Coordinator) recovered(run string, do func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = c.noteFault(fault, "run", run)
		}
	}()
	return do()
}

// noteFault counts and logs a panic, and returns it as an error. It is called on the goroutine that recovered from it.
func (c *Coordinator) noteFault(fault any, kind, name string) error {
	c.faults.Add(1)
	c.log.Error("internal fault", kind, name, "fault", fault, "stack", string(debug.Stack()))
	return fmt.Errorf("an internal fault of the coordinator: %v; report it with the coordinator's log", fault)
}

// faulted ends a run because of a panic. It is called on the goroutine that recovered from the panic. c.mu is held.
func (c *Coordinator) faulted(r *run, fault any) {
	err := c.noteFault(fault, "run", r.id)
	if !c.inProgress(r) {
		return
	}
	c.abortFaulted(r, err.Error())
	c.later(r, func() { c.forceEnd(r) })
}

// abortFaulted aborts a run whose state may be inconsistent: a second panic is recovered and logged. c.mu is held.
func (c *Coordinator) abortFaulted(r *run, reason string) {
	defer func() {
		if again := recover(); again != nil {
			c.log.Error("the run cannot be ended in order", "run", r.id, "fault", again)
		}
	}()
	r.machine.Abort(clock.Now(), reason)
	c.carryOut(r)
}

// forceEnd releases a run whose end could not even be written, so that the next run can begin. It is a task of the
// run's write queue and comes after the run's end, if there is one.
func (c *Coordinator) forceEnd(r *run) {
	c.mu.Lock()
	going := c.inProgress(r)
	c.mu.Unlock()
	if !going {
		return
	}
	if err := r.ledger.Close(); err != nil {
		c.log.Error("the ledger of the run cannot be closed", "run", r.id, "error", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(r)
}

// inProgress reports whether a run is in progress. c.mu is held.
func (c *Coordinator) inProgress(r *run) bool { return slices.Contains(c.active, r) }

// errFault is what a caller gets whose call panicked.
var errFault = status.Error(codes.Internal,
	"an internal fault of the coordinator: report it with the coordinator's log")

// recovering returns server options that recover from a panic in a call, so that only this call fails.
func (c *Coordinator) recovering() []grpc.ServerOption {
	unary := func(ctx context.Context, q any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any,
		err error) {
		defer c.failCall(info.FullMethod, &err)
		return handle(ctx, q)
	}
	stream := func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
		defer c.failCall(info.FullMethod, &err)
		return handle(srv, s)
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary), grpc.ChainStreamInterceptor(stream)}
}

// failCall recovers from a panic in a call, which then returns errFault. It is deferred.
func (c *Coordinator) failCall(method string, err *error) {
	if fault := recover(); fault != nil {
		_ = c.noteFault(fault, "method", method)
		*err = errFault
	}
}
