package socket

import (
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// counter counts what the sweeper passes to it, and how often the sweeper naps meanwhile.
type counter struct {
	of    *sweeper
	bytes *atomic.Int64
	naps  *atomic.Int64
}

func (c counter) Consume(p []byte, _ Reading) bool {
	c.bytes.Add(int64(len(p)))
	if c.of.gate.napping {
		c.naps.Add(1)
	}
	return true
}

// A sweeper of many sockets that are read often naps, reads all of them, and is awake again when they are read seldom.
func TestSweeperNaps(t *testing.T) {
	for name, test := range map[string]struct {
		sockets int
		naps    bool
	}{"many sockets": {napSockets + 50, true}, "few sockets": {napSockets / 4, false}} {
		t.Run(name, func(t *testing.T) {
			w, err := newSweeper(true)
			if err != nil {
				t.Fatal(err)
			}
			defer w.close()
			if w.arrivals == nil {
				t.Skip("NO TIMES OF PACKETS: sweepers do not nap; run as root, or with CAP_BPF")
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			var bytes, naps atomic.Int64
			peers := make([]net.Conn, test.sockets)
			for i := range peers {
				s, err := dial(t.Context(), nil, l.Addr().String(), w, prepareSocket)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if peers[i], err = l.Accept(); err != nil {
					t.Fatal(err)
				}
				defer peers[i].Close()
				go func() { _ = s.Push(t.Context(), counter{w, &bytes, &naps}) }()
			}
			var sent int64
			send := func() {
				for _, c := range peers {
					if _, err := c.Write([]byte{1}); err != nil {
						t.Fatal(err)
					}
					sent++
				}
				await(t, func() bool { return bytes.Load() == sent })
			}
			rounds := 0
			begun := time.Now()
			for ; rounds < 50 || test.naps && naps.Load() == 0 && time.Since(begun) < time.Minute; rounds++ {
				send()
			}
			if napped := naps.Load() > 0; napped != test.naps {
				t.Errorf("%d rounds: napped %v", rounds, napped)
			}
			one := func() bool {
				before := naps.Load()
				if _, err := peers[0].Write([]byte{1}); err != nil {
					t.Fatal(err)
				}
				sent++
				await(t, func() bool { return bytes.Load() == sent })
				return naps.Load() == before
			}
			await(t, one)
		})
	}
}

func await(t *testing.T, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); runtime.Gosched() {
		if time.Since(begun) > time.Minute {
			t.Fatal("not within a minute")
		}
	}
}
