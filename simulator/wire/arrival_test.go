package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/spate-load/spate/clock"
)

// pause is how long the program delays accepting or reading. A correct stamp is off by far less.
const pause = 80 * time.Millisecond

// listenStamped listens where connections are ours, not net's: on Linux.
func listenStamped(t *testing.T) net.Listener {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("no receive stamps here")
	}
	l, err := ListenTCP("127.0.0.1:0", true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// Data that arrived before the connection was accepted have their own arrival time.
func TestArrivalBeforeAccept(t *testing.T) {
	l := listenStamped(t)
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
	l, err := ListenTCP("127.0.0.1:0", false)
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

// A request that came over no connection of ours, as in a test of handlers, arrived when it was read.
func TestArrivalWithoutConnection(t *testing.T) {
	r := new(http.Request)
	if c := connectionOf(r); c.arrivals != nil || c.direct != nil {
		t.Errorf("a request of no connection has %+v", c)
	}
	if at, by := ArrivalOf(r, 5); at != 5 || by != ArrivalByProgram {
		t.Errorf("it arrived at %d by the clock of the %s", at, by)
	}
}

// Write sets the send times of whole objects again, and leaves all else as it is.
func TestWriteSetsSendTimes(t *testing.T) {
	l := listenStamped(t)
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	sealed := clock.Now()
	form := `data: {"a":"b","sent_ns":%d}` + "\n\n" + `data: {"sent_ns":7,"x":{"c":1,"sent_ns":%d}}` + "\n\n" +
		`{"d":1,"sent_ns":12`
	sent := fmt.Sprintf(form, sealed, sealed)
	if _, err := io.WriteString(server, sent); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(client, got); err != nil {
		t.Fatal(err)
	}
	var first, second clock.Instant
	_, err = fmt.Sscanf(string(got), form, &first, &second)
	if err != nil || first < sealed || second < first || second == sealed {
		t.Errorf("sent %s, got %s (%v)", sent, got, err)
	}
}
