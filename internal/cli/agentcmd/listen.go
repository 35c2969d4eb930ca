package agentcmd

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/spate-load/spate/internal/cli/command"
)

// An agent that cannot connect, but can be reached, as in a pod by kubectl port-forward, has the coordinator
// listen:PORT. Others connect to that port of its loopback, and say the token of its environment first; it takes these
// connections when it would make one.
const (
	listens     = "listen:"
	listenToken = "SPATE_LISTEN_TOKEN"
	listenSoon  = time.Second // for the token, and to see whether a dial is still wanted
)

// listen waits for connections at listen:PORT.
func listen(at string) (find func(context.Context) (string, error), dial []grpc.DialOption, end func(), err error) {
	token, port := os.Getenv(listenToken), strings.TrimPrefix(at, listens)
	if len(token) < 16 {
		return nil, nil, nil, command.BadInputf("--coordinator %s needs a token of at least 16 bytes in %s", at, listenToken)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:"+port)
	if err != nil {
		return nil, nil, nil, command.BadInputf("--coordinator %s: %w", at, err)
	}
	take := func(ctx context.Context, _ string) (net.Conn, error) { return accept(ctx, l, token) }
	return func(context.Context) (string, error) { return "passthrough:///" + at, nil },
		[]grpc.DialOption{grpc.WithContextDialer(take)}, func() { _ = l.Close() }, nil
}

// accept returns the next connection that says the token and has not broken while it waited.
func accept(ctx context.Context, l net.Listener, token string) (net.Conn, error) {
	for ctx.Err() == nil {
		if d, is := l.(*net.TCPListener); is {
			_ = d.SetDeadline(time.Now().Add(listenSoon)) // another dial may set it, too
		}
		c, err := l.Accept()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		} else if err != nil {
			return nil, err
		}
		said := make([]byte, len(token))
		_ = c.SetReadDeadline(time.Now().Add(listenSoon))
		if _, err = io.ReadFull(c, said); err == nil && subtle.ConstantTimeCompare(said, []byte(token)) == 1 {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err = c.Read(said[:1]); errors.Is(err, os.ErrDeadlineExceeded) { // the agent speaks first
				return c, c.SetReadDeadline(time.Time{})
			}
		}
		_ = c.Close()
	}
	return nil, fmt.Errorf("no coordinator has connected to %s: %w", l.Addr(), context.Cause(ctx))
}
