package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/coordinator/fleet"
	"github.com/spate-load/spate/coordinator/live"
	"github.com/spate-load/spate/coordinator/storage"
)

// ground is what all parts of a coordinator stand on.
type ground struct {
	cfg     Config
	log     *slog.Logger
	storage *storage.Runs
	boot    string // id of this boot of the machine, during which the monotonic clock continues; empty: not known
	diskOf  func(*ledger.Ledger) storage.Disk
	lag     live.Lag
	latest  live.Latest
	intake  intake
	closing chan struct{}  // closed by Close: handlers return
	workers sync.WaitGroup // of runs in progress, of write queues, and what records runs at the start
	faults  atomic.Uint64  // panics that were recovered from

	mu     sync.Mutex // see Locks
	fleet  *fleet.Fleet
	closed bool
}

// leaves reports whether the coordinator is shutting down.
func (g *ground) leaves() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// A panic ends only the run or the call in which it happens. Other runs stay in the queue, and agents stay connected. A
// run that panics when a restarted coordinator reads it is left as it is.

// recovered calls do, which is about a run that is not in progress, and returns a panic of do as an error.
func (g *ground) recovered(run string, do func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = g.noteFault(fault, "run", run)
		}
	}()
	return do()
}

// noteFault counts and logs a panic, and returns it as an error. It is called on the goroutine that recovered from it.
func (g *ground) noteFault(fault any, kind, name string) error {
	g.faults.Add(1)
	g.log.Error("internal fault", kind, name, "fault", fault, "stack", string(debug.Stack()))
	return fmt.Errorf("an internal fault of the coordinator: %v; report it with the coordinator's log", fault)
}

// errFault is what a caller gets whose call panicked.
var errFault = status.Error(codes.Internal,
	"an internal fault of the coordinator: report it with the coordinator's log")

// recovering returns server options that recover from a panic in a call, so that only this call fails.
func (g *ground) recovering() []grpc.ServerOption {
	unary := func(ctx context.Context, q any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any,
		err error) {
		defer g.failCall(info.FullMethod, &err)
		return handle(ctx, q)
	}
	stream := func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
		defer g.failCall(info.FullMethod, &err)
		return handle(srv, s)
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary), grpc.ChainStreamInterceptor(stream)}
}

// failCall recovers from a panic in a call, which then returns errFault. It is deferred.
func (g *ground) failCall(method string, err *error) {
	if fault := recover(); fault != nil {
		_ = g.noteFault(fault, "method", method)
		*err = errFault
	}
}

// read calls handle with each message of a stream, on a goroutine of its own: only by leaving its handler can a call be
// ended while it waits for a message. ended has the error of recv or handle that ended this, nil if the peer closed the
// stream. Before the handler returns it calls quit, which waits for handle: that is not called again.
func read[M any](g *ground, recv func() (M, error), handle func(M) error) (ended <-chan error, quit func()) {
	out := make(chan error, 1)
	var handling sync.Mutex
	left := false
	one := func(m M) (err error) {
		handling.Lock()
		defer handling.Unlock()
		if left {
			return errClosing
		}
		defer g.failCall("a message of a stream", &err)
		return handle(m)
	}
	go func() {
		m, err := recv()
		for ; err == nil; m, err = recv() {
			if err = one(m); err != nil {
				break
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		out <- err
	}()
	return out, func() {
		handling.Lock()
		defer handling.Unlock()
		left = true
	}
}

// flowWindow is how many bytes of a stream or a connection may be in flight. A fixed window avoids gRPC's estimate,
// which costs a ping for each snapshot. 4 MiB per 150 ms are 28 MB/s.
const flowWindow = 4 << 20

// readBuffer is what a connection reads at once. An agent has two connections, and most snapshots of a second fit. With
// gRPC's default of 32 KiB, these buffers would be a third of the memory of a coordinator with a thousand agents.
const readBuffer = 8 << 10

// serverOptions returns what a server of many agents needs.
func serverOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.InitialWindowSize(flowWindow), grpc.InitialConnWindowSize(flowWindow),
		grpc.ReadBufferSize(readBuffer),
		grpc.ConnectionTimeout(10 * time.Second), // until it says who it is; gRPC's default is two minutes
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: 5 * time.Second, PermitWithoutStream: true,
		}),
	}
}
