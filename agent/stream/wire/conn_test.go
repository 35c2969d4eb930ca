package wire

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
)

// pipe records writes and accepts at most room bytes.
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

// A request that fits into the buffer is one write. For a longer one, all writes but the last fill the buffer. The wire
// has the number of bytes accepted.
func TestRequestIsWrittenInParts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		room   int
		body   string
		writes []string
	}{
		{"a short one", 99, "body", []string{"headbody"}},
		{"no body", 99, "", []string{"head"}},
		{"one that fits just so", 99, "body and", []string{"headbody and"}},
		{"a long one", 99, "body and more", []string{"headbody and", " more"}},
		{"no room for the head", 3, "body", []string{"hea"}},
		{"no room for the body", 14, "body and more", []string{"headbody and", " m"}},
	} {
		p := &pipe{room: tt.room}
		c := &Conn{Conn: p}
		w := new(RequestIO)
		c.StartRequest(w)
		part := append(make([]byte, 0, len("headbody and")), "head"...)
		err := writeParts(c, strings.NewReader(tt.body), &part)
		if !slices.Equal(p.writes, tt.writes) {
			t.Errorf("%s: wrote %q", tt.name, p.writes)
		}
		took := len(strings.Join(p.writes, ""))
		cut := took < len("head"+tt.body)
		if w.Written != int64(took) || w.Broken != cut || (w.End() == 0) != cut || (err != nil) != cut {
			t.Errorf("%s: %+v, %v", tt.name, w, err)
		}
	}
}

func TestConnectionBelongsToOneRequest(t *testing.T) {
	c := &Conn{openTimes: OpenTimes{Total: 7}}
	first, second := new(RequestIO), new(RequestIO)
	c.StartRequest(first)
	c.StartRequest(second)
	c.EndRequest(first)
	if c.current != second || !first.Connected || first.OpenTimes.Total != 7 || second.Connected {
		t.Errorf("%+v, %+v", first, second)
	}
	if c.EndRequest(second); c.current != nil {
		t.Error("still lent")
	}
}
