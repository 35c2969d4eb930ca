package agentcmd

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/spate-load/spate/internal/process"
)

// An agent that waits for connections takes the one that says the token and is still there, and no other.
func TestListen(t *testing.T) {
	const token = "0123456789abcdef"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	say := func(text string) net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			_, err = io.WriteString(c, text)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	say("fedcba9876543210").Close() // another token
	say("short").Close()
	say(token).Close() // it broke while it waited
	say(token + "speaks").Close()
	good := say(token)
	defer good.Close()
	c, err := accept(t.Context(), l, token)
	if err != nil || c.RemoteAddr().String() != good.LocalAddr().String() {
		t.Fatalf("%v, %v", c, err)
	}
	_ = c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := accept(ctx, l, token); err == nil || !strings.Contains(err.Error(), "no coordinator has connected") {
		t.Error(err)
	}
	t.Setenv(listenToken, "short")
	if _, _, _, err := listen("listen:0"); err == nil || !strings.Contains(err.Error(), "token of at least 16 bytes in "+listenToken) {
		t.Error(err)
	}
	t.Setenv(listenToken, token)
	taken := process.FreeAddress(t)
	for _, at := range []string{"listen:x", "listen:" + taken[strings.LastIndexByte(taken, ':')+1:]} {
		_, _, end, err := listen(at)
		if (err == nil) != (at != "listen:x") {
			t.Errorf("%s: %v", at, err)
		} else if err == nil {
			end()
		}
	}
}
