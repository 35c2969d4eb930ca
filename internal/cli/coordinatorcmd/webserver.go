package coordinatorcmd

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/coordinator/access"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/web"
)

// WebFlags say where the web server listens, and who may change anything. In its tags, ADDRESS is the name of the flag
// for that, SERVES its help, and BARE its value if it is given without one.
type WebFlags struct {
	// Listen is its address. Empty: there is no web server.
	Listen string `flag:"ADDRESS" bare:"BARE" help:"SERVES"`
	// Token is a secret or a reference to one.
	Token string `rare:"yes" flag:"web-token" help:"secret needed to stop or submit runs over HTTP, or where it is: env:NAME or file:PATH; better set SPATE_WEB_TOKEN than type it"`
	// Hosts are names by which browsers may reach an address of loopback.
	Hosts []string `rare:"yes" flag:"web-host" help:"<names> by which browsers may reach an --ADDRESS on 127.0.0.1, besides localhost: those of a proxy before it"`
	// Local says that the coordinator is that of a local run.
	Local bool
	// Access has the tokens that belong to somebody. Nil: none.
	Access *access.File
}

// Check finds mistakes in the flags. plaintext allows addresses beyond loopback without certificates.
func (f *WebFlags) Check(files certs.Files, plaintext bool) error {
	if f.Listen == "" {
		if f.Token != "" || len(f.Hosts) > 0 {
			return fmt.Errorf("--web-token and --web-host need %s: give it an address", f.flag())
		}
		return nil
	}
	if _, _, err := net.SplitHostPort(f.Listen); err != nil {
		return fmt.Errorf("%s %q: want IP:PORT, for example 127.0.0.1:7780", f.flag(), f.Listen)
	}
	if !command.Loopback(f.Listen) && !files.Given() && !plaintext {
		return fmt.Errorf("--web-listen %s can be reached from other machines and would be unencrypted: give --tls-ca, "+
			"--tls-cert and --tls-key, listen on 127.0.0.1 (ssh -L reaches it), or give --insecure-plaintext if you trust "+
			"the network", f.Listen)
	}
	return nil
}

// flag returns the flag of the address.
func (f *WebFlags) flag() string {
	if f.Local {
		return "--web"
	}
	return "--web-listen"
}

// Pages is a web server that runs.
type Pages struct {
	// URL is where it is.
	URL     string
	server  *web.Server
	logger  *slog.Logger
	serving sync.WaitGroup
}

// Start starts the web server of a coordinator. If Listen is empty, there is none, and Start returns nil. The caller
// calls Close before it closes the coordinator.
func (f *WebFlags) Start(
	ctx context.Context, c *coordinator.Coordinator, files certs.Files, logger *slog.Logger,
) (*Pages, error) {
	if f.Listen == "" {
		return nil, nil
	}
	token, err := command.Secret(f.Token)
	if err != nil {
		return nil, fmt.Errorf("--web-token: %w", err)
	}
	var secure *tls.Config
	scheme := "http"
	if files.Given() {
		if secure, err = files.Server(true); err != nil {
			return nil, err
		}
		scheme = "https"
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", f.Listen)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.flag(), err)
	}
	s := &Pages{URL: scheme + "://" + l.Addr().String(), logger: logger, server: web.New(web.Config{
		Runs: c.RunService(), Dir: c.RunDir, Logger: logger, Local: f.Local,
		Rights: web.Rights{Token: token, Loopback: command.Loopback(l.Addr().String()), Hosts: f.Hosts,
			Access: f.Access, Revoked: files.Revocations()},
	})}
	s.serving.Go(func() {
		if err := s.server.Serve(l, secure); err != nil {
			logger.Error("web server failed", "error", err)
		}
	})
	logger.Info("runs are served over HTTP", "url", s.URL)
	return s, nil
}

// Close ends the web server and waits for its end. A nil server has ended.
func (s *Pages) Close() {
	if s == nil {
		return
	}
	if err := s.server.Close(); err != nil {
		s.logger.Error("web server did not close well", "error", err)
	}
	s.serving.Wait()
}
