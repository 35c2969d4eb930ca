package simulator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/simulator/config"
	"github.com/spate-load/spate/simulator/wire"
)

// Server is a set of listening endpoints.
type Server struct {
	scheme    string
	truth     *truthLog
	endpoints []*endpoint
	listeners []net.Listener
	servers   []*http.Server
	serving   sync.WaitGroup // the accepting goroutines
	closing   sync.Once
	closed    error
}

// Start serves one endpoint at each address (host:port; port 0 means a free port). Without addresses it serves
// Config.Endpoints endpoints at free ports of 127.0.0.1. It refuses addresses that are not loopback, unless
// Config.AllowRemote is set. It does not block. The endpoints run until Close.
func Start(c config.Config, addrs ...string) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		for range c.Endpoints {
			addrs = append(addrs, "127.0.0.1:0")
		}
	}
	c.Endpoints = len(addrs)
	s := &Server{truth: newTruthLog(c.Truth), scheme: c.Protocol.Scheme()}
	for i, addr := range addrs {
		if err := s.open(c, i, addr); err != nil {
			s.abandon()
			return nil, err
		}
	}
	for i := range s.servers {
		s.serving.Go(func() { // ends with ErrServerClosed
			if s.servers[i].TLSConfig != nil {
				_ = s.servers[i].ServeTLS(s.listeners[i], "", "")
				return
			}
			_ = s.servers[i].Serve(s.listeners[i])
		})
	}
	return s, nil
}

// open creates one endpoint and its listener.
func (s *Server) open(c config.Config, number int, addr string) error {
	l, err := listen(addr, c.AllowRemote, s.truth.wanted())
	if err != nil {
		return err
	}
	s.listeners = append(s.listeners, l)
	ep := newEndpoint(c, number, s.truth)
	s.endpoints = append(s.endpoints, ep)
	s.servers = append(s.servers, &http.Server{
		Handler:           ep,
		ConnContext:       wire.WithConnection,
		ReadHeaderTimeout: time.Minute,
		Protocols:         c.Protocol.Protocols(),
		TLSConfig:         c.Protocol.TLS.Clone(),
		ErrorLog:          log.New(io.Discard, "", 0), // it would log each reset that a fault causes
	})
	return nil
}

// listen opens a listener, only on loopback unless remote is set. With stamped, its connections know when their bytes
// arrived.
func listen(addr string, remote, stamped bool) (net.Listener, error) {
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("simulator: address %q cannot be used, give host:port: %w", addr, err)
	}
	if !remote && !tcp.IP.IsLoopback() {
		return nil, fmt.Errorf("simulator: %q is not loopback: listen on 127.0.0.1, or give --allow-remote", addr)
	}
	l, err := wire.ListenTCP(tcp.String(), stamped)
	if err != nil {
		return nil, fmt.Errorf("simulator: cannot listen on %q: %w", addr, err)
	}
	return l, nil
}

// abandon closes what a failed Start has opened.
func (s *Server) abandon() {
	for _, l := range s.listeners {
		_ = l.Close()
	}
	for _, ep := range s.endpoints {
		ep.Close()
	}
}

// URLs returns the base URLs of the endpoints, in the order of their addresses.
func (s *Server) URLs() []string {
	return lists.Each(s.listeners, func(l net.Listener) string { return s.scheme + "://" + l.Addr().String() })
}

// Records returns a copy of the records of all ended requests, in the order of their ends. It is empty without
// Truth.Keep.
func (s *Server) Records() []Record {
	s.truth.mu.Lock()
	defer s.truth.mu.Unlock()
	return slices.Clone(s.truth.records)
}

// Close stops listening, lets the requests in flight finish until ctx is done, cuts off the rest, and waits until
// everything has ended. All records are written by then. Close returns ctx's error if it cut off requests. Further
// calls wait for the first one and return the same error.
func (s *Server) Close(ctx context.Context) error {
	s.closing.Do(func() { s.closed = s.close(ctx) })
	return s.closed
}

func (s *Server) close(ctx context.Context) error {
	errs := make([]error, len(s.servers))
	var stopping sync.WaitGroup
	for i, h := range s.servers {
		stopping.Go(func() {
			if errs[i] = h.Shutdown(ctx); errs[i] != nil {
				_ = h.Close() // the returned error is why it had to be closed
			}
		})
	}
	stopping.Wait()
	s.serving.Wait()
	for _, ep := range s.endpoints {
		ep.Close()
	}
	return errors.Join(errs...)
}
