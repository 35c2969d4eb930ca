package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Server returns the coordinator's side of connections: a peer must hold an agent's or a client's certificate. refused
// is called once for each rejected connection, from many goroutines. The program's own certificate is read again for
// each connection, so that a renewed one takes effect at once.
func (f Files) Server(refused func(from net.Addr, why error)) (credentials.TransportCredentials, error) {
	config, err := f.serverConfig()
	if err != nil {
		return nil, err
	}
	config.ClientAuth = tls.RequireAnyClientCert // verified by serverConfig, with better messages
	return &watched{credentials.NewTLS(config), refused}, nil
}

// Browsers returns the coordinator's side of connections whose peers need no certificate. A certificate that a peer
// presents must be an agent's or a client's; PeerOf tells whose.
func (f Files) Browsers() (*tls.Config, error) {
	config, err := f.serverConfig()
	if err != nil {
		return nil, err
	}
	verify := config.VerifyConnection
	config.ClientAuth = tls.RequestClientCert
	config.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return nil
		}
		return verify(s)
	}
	return config, nil
}

// serverConfig returns the settings of servers: certificates of peers must not be a coordinator's.
func (f Files) serverConfig() (*tls.Config, error) {
	pool, err := f.checked(Coordinator)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.pair() },
		VerifyConnection: func(s tls.ConnectionState) error {
			id, err := verify(pool, s.PeerCertificates, time.Now())
			if err == nil && id.Role == Coordinator {
				err = fmt.Errorf("%s cannot call a coordinator", id.Role.article())
			}
			return err
		},
	}, nil
}

// Dial returns the calling side of connections: the peer must hold a certificate of a coordinator, whatever its
// address. The program's own certificate is read again for each connection.
func (f Files) Dial(role Role) (credentials.TransportCredentials, error) {
	pool, err := f.checked(role)
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(&tls.Config{
		MinVersion:           tls.VersionTLS13,
		InsecureSkipVerify:   true, // Only the address is unverified: coordinators move. See below for the rest.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return f.pair() },
		VerifyConnection: func(s tls.ConnectionState) error {
			id, err := verify(pool, s.PeerCertificates, time.Now())
			if err == nil && id.Role != Coordinator {
				err = fmt.Errorf("the server is not a coordinator but %s", id)
			}
			return err
		},
	}), nil
}

// checked checks the program's own files and returns the authority.
func (f Files) checked(want Role) (pool *x509.CertPool, err error) {
	id, until, err := f.Check(time.Now())
	if err != nil {
		return nil, err
	}
	if id.Role != want {
		return nil, fmt.Errorf("%s is the certificate of %s (valid until %s): %s needs one of its own, "+
			"see `spate certs --help`", f.Cert, id, until.Format(time.DateOnly), want.article())
	}
	return f.pool()
}

// watched reports handshakes that failed.
type watched struct {
	credentials.TransportCredentials
	refused func(from net.Addr, why error)
}

// ServerHandshake runs the TLS handshake and reports a failure.
func (w *watched) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := w.TransportCredentials.ServerHandshake(conn)
	if err != nil {
		w.refused(conn.RemoteAddr(), err)
	}
	return c, info, err
}

// Clone returns a copy.
func (w *watched) Clone() credentials.TransportCredentials {
	return &watched{w.TransportCredentials.Clone(), w.refused}
}

// PeerOf returns the identity of the peer of a call. It returns false if the connection does not use certificates.
func PeerOf(ctx context.Context) (Identity, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return Identity{}, false
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return Identity{}, false
	}
	id, err := identityOf(info.State.PeerCertificates[0])
	return id, err == nil
}

// Authorise returns server options that let peers call only the services of their role. services maps each service's
// full name to the roles that may call it; a service that is not listed may not be called. refused is called for each
// rejected call.
func Authorise(services map[string][]Role, refused func(who Identity, method string)) []grpc.ServerOption {
	check := func(ctx context.Context, method string) error {
		id, ok := PeerOf(ctx)
		if ok && slices.Contains(services[path.Dir(method)[1:]], id.Role) {
			return nil
		}
		refused(id, method)
		return status.Error(codes.PermissionDenied, refusal(id, ok, method).Error())
	}
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, q any, info *grpc.UnaryServerInfo,
			next grpc.UnaryHandler) (any, error) {
			if err := check(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return next(ctx, q)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
			next grpc.StreamHandler) error {
			if err := check(stream.Context(), info.FullMethod); err != nil {
				return err
			}
			return next(srv, stream)
		}),
	}
}

// refusal returns why a call is rejected.
func refusal(id Identity, known bool, method string) error {
	if !known {
		return errors.New("calls need a certificate of the cluster: see `spate certs --help`")
	}
	return fmt.Errorf("the certificate of %s does not allow %s: use one of the right role, see `spate certs --help`",
		id, method)
}
