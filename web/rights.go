package web

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/coordinator/access"
)

// Rights decides who may read, and who may change anything. Everybody who reaches the listener may read.
type Rights struct {
	// Token is a secret that gives the right to change anything. Empty: there is none.
	Token string
	// Access has the tokens that belong to somebody. What their holders may change, the coordinator decides. Nil: none.
	Access *access.File
	// Revoked are certificates that give no right any more. Nil: none.
	Revoked *certs.Revocations
	// Loopback says that only this machine reaches the listener. Without tokens and without certificates, everybody on
	// this machine may then change anything, as with the coordinator's other services.
	Loopback bool
	// Hosts are names by which a browser may reach a Loopback listener, besides those of this machine.
	Hosts []string
}

// errRight is the answer to a request that needs a right.
var errRight = errors.New("this needs the certificate of a client (`spate certs --help`), or the token as a bearer " +
	"token or as the password of any user")

// errHost is the answer to a name that may be another site's, whose page would read the answer (DNS rebinding).
var errHost = errors.New("this listener is for this machine: use 127.0.0.1, localhost, or a name that is allowed")

// Policies of pages. reportPolicy is for pages made from runs, which have a policy of their own inside.
const (
	pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	reportPolicy = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts"
)

// guard refuses requests that come from another site's page, and sets the headers that keep browsers from framing an
// answer, from guessing its type, and from telling others its address.
func (g Rights) guard(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		problem(w, http.StatusForbidden, "the request comes from the page of another site")
	}))
	next = origins.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if g.Loopback && !g.here(r.Host) {
			problem(w, http.StatusMisdirectedRequest, errHost.Error())
			return
		}
		next.ServeHTTP(w, r)
	})
}

// here reports whether a Host header names this machine, or is allowed.
func (g Rights) here(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	return host == "localhost" || slices.ContainsFunc(g.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

// forWriters passes on only requests that may change something.
func (g Rights) forWriters(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, ok := g.writer(r)
		if !ok {
			if g.hasTokens() { // a browser then asks for one
				w.Header().Set("WWW-Authenticate", `Basic realm="Spate: the token as password", charset="UTF-8"`)
			}
			problem(w, http.StatusUnauthorized, errRight.Error())
			return
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// writer returns the context of a request that may change something, from which the coordinator learns whose it is.
func (g Rights) writer(r *http.Request) (ctx context.Context, ok bool) {
	from := &peer.Peer{Addr: address(r.RemoteAddr)}
	if r.TLS != nil {
		from.AuthInfo = credentials.TLSInfo{State: *r.TLS}
	}
	ctx = peer.NewContext(r.Context(), from)
	if who, certified := g.Revoked.PeerOf(ctx); certified && who.Role == certs.Client {
		return ctx, true
	}
	if !g.hasTokens() {
		return ctx, g.Loopback && r.TLS == nil
	}
	given := tokenOf(r)
	if g.isToken(given) {
		user, _, _ := r.BasicAuth()
		return access.WithToken(ctx, user), true
	}
	holder, ok := g.Access.Policy().Holder(given)
	return access.WithNamedToken(ctx, holder), ok
}

// hasTokens reports whether any token gives the right to change something.
func (g Rights) hasTokens() bool { return g.Token != "" || g.Access.Policy().HasTokens() }

// isToken reports whether a secret is the Token. It compares in a time that does not depend on what is the same.
func (g Rights) isToken(given string) bool {
	if g.Token == "" {
		return false
	}
	want, got := sha256.Sum256([]byte(g.Token)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// tokenOf returns the bearer token of a request, or its password.
func tokenOf(r *http.Request) string {
	const scheme = "bearer "
	if h := r.Header.Get("Authorization"); len(h) > len(scheme) && strings.EqualFold(h[:len(scheme)], scheme) {
		return h[len(scheme):]
	}
	_, password, _ := r.BasicAuth()
	return password
}

// address is the IP address and port of a viewer.
type address string

// Network returns the kind of network.
func (address) Network() string { return "tcp" }

func (a address) String() string { return string(a) }
