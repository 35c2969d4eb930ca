package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// tunnel asks a proxy for a tunnel to an address, on the connection c to the proxy. Its error contains the proxy's
// answer. It blocks until the proxy has answered or ctx ends.
func (p *proxy) tunnel(ctx context.Context, c net.Conn, address string) error {
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	ask := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address,
		Header: http.Header{"User-Agent": {"spate"}}}
	if p.header != "" {
		ask.Header.Set("Proxy-Authorization", p.header)
	}
	if err := ask.Write(c); err != nil {
		return fmt.Errorf("send CONNECT to the proxy %s: %w", p.address, innerError(err))
	}
	// Bytes after the head come from the endpoint and must not be read here.
	//nolint:bodyclose // it has no body: the tunnel follows
	response, err := http.ReadResponse(bufio.NewReaderSize(oneByOne{c}, 16), ask)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("the proxy %s did not answer CONNECT: %w", p.address, innerError(err))
	case response.StatusCode == http.StatusProxyAuthRequired:
		return p.unauthorised()
	case response.StatusCode/100 != 2:
		return fmt.Errorf("the proxy %s refused a tunnel to %s: %s", p.address, address, response.Status)
	}
	return nil
}

// unauthorised returns the error for a proxy's status 407.
func (p *proxy) unauthorised() error {
	if p.header == "" {
		return fmt.Errorf("the proxy %s requires a user and a password (407): set connection.proxy_auth",
			p.address)
	}
	return fmt.Errorf("the proxy %s rejected the user and password in connection.proxy_auth (407)", p.address)
}

// oneByOne reads one byte at a time, so that a buffered reader does not read ahead.
type oneByOne struct{ io.Reader }

// Read implements io.Reader.
func (r oneByOne) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, errors.New("empty read buffer")
	}
	return r.Reader.Read(p[:1])
}
