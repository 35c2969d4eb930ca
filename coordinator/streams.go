package coordinator

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// received is one message of a stream, or its end.
type received[M any] struct {
	message M
	err     error
}

// receive reads a stream in its own goroutine, so that a handler can also wait for other things. The channel's last
// message is the stream's first error. The handler calls quit when it returns; the stream then ends, and with it the
// goroutine.
func receive[M any](recv func() (M, error)) (in <-chan received[M], quit func()) {
	out, done := make(chan received[M]), make(chan struct{})
	go func() {
		for {
			m, err := recv()
			select {
			case out <- received[M]{m, err}:
			case <-done:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return out, func() { close(done) }
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
