package torture

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// patience is how long to wait for anything that should happen at once, on a machine that may be busy.
const patience = 60 * time.Second

// echo starts a server that sends back what it gets, and returns a link to it.
func echo(t *testing.T) *Link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	k, err := Listen(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(k.Close(), l.Close()); err != nil {
			t.Error(err)
		}
		<-done
	})
	return k
}

func connect(t *testing.T, k *Link) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", k.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask sends a word and returns how long the same word took to come back.
func ask(t *testing.T, c net.Conn, word string) time.Duration {
	t.Helper()
	begin := time.Now()
	if _, err := c.Write([]byte(word)); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, len(word))
	if _, err := io.ReadFull(c, back); err != nil || string(back) != word {
		t.Fatalf("%q came back as %q: %v", word, back, err)
	}
	return time.Since(begin)
}

// silent fails the test if anything arrives, or the connection ends, within a short time.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes, %v, and nothing should come", n, err)
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
}

func TestHeldLinkLetsNothingPassAndLosesNothing(t *testing.T) {
	k := echo(t)
	c := connect(t, k)
	ask(t, c, "before")
	release := k.Hold()
	again := k.Hold()
	if _, err := c.Write([]byte("mean")); err != nil {
		t.Fatal(err)
	}
	silent(t, c)
	late := connect(t, k)
	release()
	silent(t, c)
	again()
	if ask(t, late, "while") > patience/2 {
		t.Error("a connection that was made meanwhile does not come to life")
	}
	back := make([]byte, 4)
	if _, err := io.ReadFull(c, back); err != nil || string(back) != "mean" {
		t.Errorf("%q, %v", back, err)
	}
}

func TestDelayAndLimit(t *testing.T) {
	k := echo(t)
	c := connect(t, k)
	end := k.Delay(60*time.Millisecond, 0)
	if took := ask(t, c, "word"); took < 120*time.Millisecond {
		t.Errorf("there and back in %v", took)
	}
	end()
	end = k.Limit(40_000)
	if took := ask(t, c, string(make([]byte, 8000))); took < 200*time.Millisecond {
		t.Errorf("8,000 bytes at 40,000 a second in %v", took)
	}
	end()
	if took := ask(t, c, string(make([]byte, 8000))); took > 100*time.Millisecond {
		t.Logf("%v without a limit: a busy machine", took)
	}
}

func TestResetBreaksAllConnections(t *testing.T) {
	k := echo(t)
	c := connect(t, k)
	ask(t, c, "word")
	k.Reset()
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("read: %v", err)
	}
	ask(t, connect(t, k), "another")
}

func TestLinkWithoutAPeerBreaks(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	k, err := Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", k.Address()); err == nil { // the reset may come first
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a connection to a closed port brings bytes")
		}
		_ = c.Close() // it is broken
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}
