package stream

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
)

// pipe notes what is written and takes no more than room.
type pipe struct {
	net.Conn
	writes []string
	room   int
}

var errFull = errors.New("full")

func (p *pipe) Write(b []byte) (int, error) {
	n := min(len(b), p.room)
	p.room -= n
	p.writes = append(p.writes, string(b[:n]))
	if n < len(b) {
		return n, errFull
	}
	return n, nil
}

func TestHeadGoesWithTheBody(t *testing.T) {
	for _, tt := range []struct {
		name   string
		hold   bool
		room   int
		writes []string
		counts []int // what the callers of Write are told
	}{
		{"head and body", true, 99, []string{"headbody", "more"}, []int{4, 4, 4}},
		{"no body to come", false, 99, []string{"head", "body", "more"}, []int{4, 4, 4}},
		{"no room for the head", true, 3, []string{"hea", ""}, []int{4, 0, 0}},
		{"no room for the body", true, 6, []string{"headbo", ""}, []int{4, 2, 0}},
	} {
		p := &pipe{room: tt.room}
		c := &conn{Conn: p}
		w := &wire{hold: tt.hold}
		c.lend(w)
		var counts []int
		for _, s := range []string{"head", "body", "more"} {
			n, _ := c.Write([]byte(s))
			counts = append(counts, n)
		}
		if !slices.Equal(p.writes, tt.writes) || !slices.Equal(counts, tt.counts) {
			t.Errorf("%s: wrote %q, told %v", tt.name, p.writes, counts)
		}
		if took := len(strings.Join(p.writes, "")); w.written != int64(took) || w.broken != (took < 12) || (w.end() == 0) != w.broken {
			t.Errorf("%s: %+v", tt.name, w)
		}
	}
}

func TestConnectionBelongsToOneRequest(t *testing.T) {
	c := &conn{opened: opened{whole: 7}}
	first, second := new(wire), new(wire)
	c.lend(first)
	c.lend(second)
	c.take(first)
	if c.wire != second || !first.connected || first.opened.whole != 7 || second.connected {
		t.Errorf("%+v, %+v", first, second)
	}
	if c.take(second); c.wire != nil {
		t.Error("still lent")
	}
}
