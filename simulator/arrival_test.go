package simulator

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/clock"
)

// pause is how long the program delays accepting or reading. A correct stamp is off by far less.
const pause = 80 * time.Millisecond

// Data that arrived before the connection was accepted have their own arrival time.
func TestArrivalBeforeAccept(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no receive stamps here")
	}
	l, err := listenTCP("127.0.0.1:0", true)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 50 { // stamping starts some time after it was requested
		before, last, after := arrivalOfHello(t, l)
		if last.by != ArrivalByKernel {
			continue
		}
		if last.at < before || last.at > after {
			t.Errorf("sent from %d to %d, arrived at %d", before, after, last.at)
		}
		return
	}
	t.Error("no stamp in 50 connections")
}

// arrivalOfHello sends a word, accepts its connection a pause later, and reads the word. Sending lasted from before to
// after.
func arrivalOfHello(t *testing.T, l net.Listener) (before clock.Instant, last stamp, after clock.Instant) {
	t.Helper()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	before = clock.Now()
	if _, err := io.WriteString(client, "hello"); err != nil {
		t.Fatal(err)
	}
	after = clock.Now().Add(pause / 2)
	<-time.After(pause)
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var word [8]byte
	n, err := server.Read(word[:])
	if err != nil || string(word[:n]) != "hello" {
		t.Fatalf("read %q, %v", word[:n], err)
	}
	return before, server.(*arrivalConn).newest(), after
}

// Data that the kernel does not take at once wait until the other side has read.
func TestLargeWrite(t *testing.T) {
	l, err := listenTCP("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	much := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	wrote := make(chan error, 1)
	go func() {
		n, err := server.Write(much)
		if err == nil && n != len(much) {
			err = fmt.Errorf("%d of %d bytes", n, len(much))
		}
		wrote <- errors.Join(err, server.Close())
	}()
	read, err := io.ReadAll(client)
	if failed := errors.Join(err, <-wrote); failed != nil || !bytes.Equal(read, much) {
		t.Errorf("%d bytes came, %v", len(read), failed)
	}
	if _, err := server.Write(much); !errors.Is(err, net.ErrClosed) {
		t.Errorf("writing to a closed connection: %v", err)
	}
	_ = client.Close()
}

// A request counts from its last byte on, and each request of a reused connection from its own last byte.
func TestArrivalOfRequests(t *testing.T) {
	config := fast()
	config.Truth.Keep = true
	p := start(t, config)
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.URLs()[0], "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var from, to []clock.Instant
	for range 3 {
		begin, end := fourTokens[:10], fourTokens[10:]
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", completionsPath,
			len(fourTokens), begin)
		<-time.After(pause / 4)
		from = append(from, clock.Now())
		io.WriteString(conn, end)
		to = append(to, clock.Now().Add(pause))
		if err := readEnd(conn); err != nil {
			t.Fatal(err)
		}
	}
	p.stop()
	for i, r := range p.Records() {
		if r.Arrived < from[i] || r.Arrived > to[i] || r.Arrived > r.Received {
			t.Errorf("request %d was sent from %d to %d: %+v", i, from[i], to[i], r)
		}
		if runtime.GOOS == "linux" && i == 2 && r.ArrivedBy != ArrivalByKernel {
			t.Errorf("it arrived by the clock of the %s", r.ArrivedBy)
		}
	}
}

// readEnd reads to the end of a chunked answer.
func readEnd(conn net.Conn) error {
	var all []byte
	var b [1024]byte
	for !bytes.HasSuffix(all, []byte("\r\n0\r\n\r\n")) {
		n, err := conn.Read(b[:])
		if err != nil {
			return err
		}
		all = append(all, b[:n]...)
	}
	return nil
}

// If the stamp of a read may belong to another request, or nobody requested stamps, the record has the program's time
// and says so.
func TestArrivalByProgram(t *testing.T) {
	config := fast()
	config.Truth.Keep = true
	config.Protocol.HTTP = "any"
	cert, ca, err := SelfSigned(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	config.Protocol.TLS = cert
	p := start(t, config)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	two := Protocol{HTTP: "2", TLS: cert}
	p.client.Transport = &http.Transport{Protocols: two.protocols(), TLSClientConfig: &tls.Config{RootCAs: roots}}
	if status, _ := p.get(completionsPath, "", fourTokens); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	p.stop()
	for _, r := range p.Records() {
		if r.ArrivedBy != ArrivalByProgram || r.Arrived != r.Received {
			t.Errorf("recorded %+v", r)
		}
	}
	if c := connectionOf(new(http.Request)); c.arrivals != nil || c.direct != nil {
		t.Errorf("a request of no connection has %+v", c)
	}
}
