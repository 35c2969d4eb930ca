package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spate-load/spate/certs"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// cluster makes a certificate authority and the certificates of a coordinator, an agent and a client.
func cluster(t *testing.T) (coordinator, agent, client certs.Files) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "certs")
	if err := certs.Init(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	issue := func(role certs.Role, name string) certs.Files {
		f, err := certs.Issue(dir, role, name, nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	return issue(certs.Coordinator, "main"), issue(certs.Agent, "a"), issue(certs.Client, "me")
}

// served serves a coordinator's services with credentials on loopback, and returns the address.
func served(t *testing.T, creds credentials.TransportCredentials, register bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(creds))
	if register {
		spatev1.RegisterControlServiceServer(server, spatev1.UnimplementedControlServiceServer{})
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Stop(); serving.Wait() })
	return l.Addr().String()
}

// complaintOf returns what an agent reports about a coordinator.
func complaintOf(t *testing.T, address string, creds credentials.TransportCredentials) string {
	t.Helper()
	a, err := New(Config{
		Name: "a", Logger: slog.New(slog.DiscardHandler),
		DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(creds)},
		Coordinator: func(context.Context) (string, error) { return "passthrough:///" + address, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	err = a.connect(t.Context(), func(*spatev1.Welcome) { t.Error("welcomed") })
	if err == nil {
		t.Fatal("connected")
	}
	return err.Error()
}

func TestConnectErrors(t *testing.T) {
	coordinator, agent, _ := cluster(t)
	foreign, stranger, _ := cluster(t)
	server := func(f certs.Files) credentials.TransportCredentials {
		c, err := f.Server(false)
		if err != nil {
			t.Fatal(err)
		}
		return credentials.NewTLS(c)
	}
	dial := func(f certs.Files) credentials.TransportCredentials {
		c, err := f.Dial(certs.Agent)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	// the port stays in use, so that nothing else can listen on it
	taken, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	pair, err := tls.LoadX509KeyPair(stranger.Cert, stranger.Key)
	if err != nil {
		t.Fatal(err)
	}
	plain := insecure.NewCredentials()
	for name, c := range map[string]struct {
		address string
		creds   credentials.TransportCredentials
		want    string
	}{
		"nothing listens":       {taken.LocalAddr().String(), plain, "refuses connections"},
		"web server":            {web.Listener.Addr().String(), plain, "not a Spate coordinator"},
		"web server, TLS asked": {web.Listener.Addr().String(), dial(agent), "does not speak TLS"},
		"other gRPC server":     {served(t, plain, false), plain, "not a Spate coordinator of this version"},
		"wants TLS":             {served(t, server(coordinator), true), plain, "or requires TLS"},
		"plain, TLS asked":      {served(t, plain, true), dial(agent), "TLS"},
		"other authority":       {served(t, server(foreign), true), dial(agent), "certificate is from another authority"},
		"agent's own is foreign": {
			served(t, server(coordinator), true),
			credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}),
			// in either text: the server's reason may or may not arrive before the end of the connection
			"see `spate certs --help`",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := complaintOf(t, c.address, c.creds)
			if !strings.HasPrefix(got, "coordinator "+c.address+": ") || !strings.Contains(got, c.want) ||
				strings.Contains(got, "desc") || strings.Contains(got, "rpc error") {
				t.Errorf("%q does not say %q", got, c.want)
			}
		})
	}
}

func TestPlainAddress(t *testing.T) {
	for target, want := range map[string]string{
		"passthrough:///10.0.0.1:7700": "10.0.0.1:7700", "dns:///host:1": "host:1", "dns://1.1.1.1/host:1": "host:1",
		"host:7700": "host:7700",
	} {
		if got := plainAddress(target); got != want {
			t.Errorf("%s: %s, not %s", target, got, want)
		}
	}
}

// If several coordinators fail in turn, each reason is logged once.
func TestReasonsAreLoggedOnce(t *testing.T) {
	var c loggedReasons
	said := 0
	for range 5 {
		for _, err := range []error{io.EOF, errors.New("other")} {
			if c.isNew(err) {
				said++
			}
		}
	}
	if said != 2 {
		t.Errorf("said %d times", said)
	}
	for i := range 3 * maxLoggedReasons {
		c.isNew(fmt.Errorf("reason %d", i))
	}
	if len(c) > maxLoggedReasons {
		t.Errorf("%d reasons are remembered", len(c))
	}
}
