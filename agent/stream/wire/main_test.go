package wire

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spate-load/spate/agent/stream/socket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newTestPool returns a pool whose TLS resumes sessions. It is closed when the test ends.
func newTestPool(t testing.TB, s Settings) *Pool {
	t.Helper()
	p, err := NewPool(&s, 5*time.Second, &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(5)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func parse(t testing.TB, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// keepingUser is a User that keeps the RequestIO of its request.
type keepingUser struct{ io *RequestIO }

func (u *keepingUser) GotConn(c *Conn, _ bool) *RequestIO {
	u.io = new(RequestIO)
	c.StartRequest(u.io)
	return u.io
}

// text is a Follower that collects a body.
type text []byte

func (a *text) Consume(data []byte, _ socket.Reading) bool {
	*a = append(*a, data...)
	return true
}

// get sends a request, and returns its answer and what its connection recorded.
func get(t testing.TB, p *Pool, u *url.URL) (string, *RequestIO, error) {
	t.Helper()
	var user keepingUser
	response, err := p.RoundTrip(t.Context(), &Outgoing{Method: http.MethodGet, URL: u}, &user)
	if err != nil {
		return "", user.io, err
	}
	defer response.Body.Close()
	if b, ok := response.Body.(*HTTP1Body); ok {
		var answer text
		if err := b.Follow(user.io, &answer); !errors.Is(err, io.EOF) {
			return "", user.io, err
		}
		return string(answer), user.io, nil
	}
	answer, err := io.ReadAll(response.Body)
	return string(answer), user.io, err
}
