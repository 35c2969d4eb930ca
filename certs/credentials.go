package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Server returns the coordinator's side of connections: a peer must hold an agent's or a client's certificate. With
// strangers a peer may also have none, as browsers, and programs that join; Revocations.PeerOf tells whose one is. The
// program's own certificate is read again for each connection, so that a renewed one takes effect at once.
func (f Files) Server(strangers bool) (*tls.Config, error) {
	pool, err := f.checked(Coordinator)
	if err != nil {
		return nil, err
	}
	ask := tls.RequireAnyClientCert // verified below, with better messages
	if strangers {
		ask = tls.RequestClientCert
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		ClientAuth:     ask,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.pair() },
		VerifyConnection: func(s tls.ConnectionState) error {
			if strangers && len(s.PeerCertificates) == 0 {
				return nil
			}
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
		VerifyConnection:     func(s tls.ConnectionState) error { return verifyCoordinator(pool, s) },
	}), nil
}

// verifyCoordinator checks that a server is a coordinator of an authority.
func verifyCoordinator(authority *x509.CertPool, s tls.ConnectionState) error {
	id, err := verify(authority, s.PeerCertificates, time.Now())
	if err == nil && id.Role != Coordinator {
		err = fmt.Errorf("the server is not a coordinator but %s", id)
	}
	return err
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
	return Pool(f.Authority)
}

// PeerOf returns the identity of the peer of a call. It returns false if the connection does not use certificates.
func PeerOf(ctx context.Context) (Identity, bool) {
	cert := peerCertificate(ctx)
	if cert == nil {
		return Identity{}, false
	}
	id, err := identityOf(cert)
	return id, err == nil
}

// PeerOf returns the identity of the peer of a call, as the function does, unless its certificate was taken back.
func (r *Revocations) PeerOf(ctx context.Context) (Identity, bool) {
	id, ok := PeerOf(ctx)
	return id, ok && (r == nil || r.check(peerCertificate(ctx)) == nil)
}

// peerCertificate returns the certificate of the peer of a call, nil if there is none.
func peerCertificate(ctx context.Context) *x509.Certificate {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return nil
	}
	return info.State.PeerCertificates[0]
}

// Stranger is the role of a peer without a certificate.
const Stranger Role = ""

// Authorise returns server options that let peers call only the services of their role, until their certificates are
// revoked: streams end then at their next message. services maps each service's full name to the roles that may call
// it; a service that is not listed may not be called. refused is called for each rejected call.
func Authorise(
	services map[string][]Role, revoked *Revocations, refused func(who Identity, method string),
) []grpc.ServerOption {
	check := func(ctx context.Context, method string) error {
		id, ok := PeerOf(ctx)
		var err error
		if !slices.Contains(services[path.Dir(method)[1:]], id.Role) {
			err = refusal(id, ok, method)
		} else if ok {
			err = revoked.check(peerCertificate(ctx))
		}
		if err == nil {
			return nil
		}
		refused(id, method)
		return status.Error(codes.PermissionDenied, err.Error())
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
			again := func() error { return check(stream.Context(), info.FullMethod) }
			if err := again(); err != nil {
				return err
			}
			return next(srv, checkedStream{stream, again})
		}),
	}
}

// checkedStream is a stream whose peer is checked again at each message.
type checkedStream struct {
	grpc.ServerStream
	check func() error
}

// RecvMsg receives a message, unless the peer is not allowed to send any more.
func (s checkedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.check()
}

// SendMsg sends a message, unless the peer is not allowed to receive any more.
func (s checkedStream) SendMsg(m any) error {
	if err := s.check(); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

// refusal returns why a call is rejected.
func refusal(id Identity, known bool, method string) error {
	if !known {
		return errors.New("calls need a certificate of the cluster: see `spate certs --help`")
	}
	return fmt.Errorf("the certificate of %s does not allow %s: use one of the right role, see `spate certs --help`",
		id, method)
}
