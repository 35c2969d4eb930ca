package socket_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/stream/socket"
	"github.com/spate-load/spate/agent/stream/streamtest"
	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/clock"
)

// A program that reads many frames at once still reports when each arrived if it has the times of packets, and only
// then.
func TestPacketTimesOfABusyProgram(t *testing.T) {
	streamtest.NeedPackets(t)
	a := testserver.NewAuthority(t)
	for name, secure := range map[string]*tls.Config{"plain": nil, "TLS": a.Serves("127.0.0.1", testserver.Later())} {
		t.Run(name, func(t *testing.T) {
			const late = 20
			busy, sent := make(chan struct{}), make(chan []clock.Instant, 1)
			s := testserver.NewPeer(t, "127.0.0.1:0", true, true, secure, func(w http.ResponseWriter, _ *http.Request) {
				var truth []clock.Instant
				for range 1 + late {
					truth = append(truth, clock.Now())
					io.WriteString(w, testserver.TokenFrame("a"))
					w.(http.Flusher).Flush()
					if len(truth) == 1 {
						<-busy
					}
					<-time.After(streamtest.Hold / late)
				}
				sent <- truth
				io.WriteString(w, testserver.DoneFrame)
			})
			for _, packets := range []bool{true, false} {
				c := streamtest.NewClient(t, stream.Config{Endpoints: []string{s.URL},
					Connection: wire.Settings{CA: a.PEM, PacketTimes: packets}})
				var o stream.Observation
				var truth []clock.Instant
				c.Do(t.Context(), stream.Request{Body: streamtest.Body(c), OnToken: func(clock.Instant, int) {
					if truth == nil {
						busy <- struct{}{}
						truth = <-sent // all frames wait for the program now
					}
				}}, &o)
				if o.Err != nil || len(o.Frames) != len(truth) {
					t.Fatalf("%v, %d frames", o.Err, len(o.Frames))
				}
				worst := worstOf(t, &o, truth)
				if exact := worst < streamtest.Hold/4; exact != packets || packets == (o.CoalescedReads > 0) {
					t.Errorf("packets %v: times are off by %v, %d reads of several frames", packets, worst, o.CoalescedReads)
				}
				if packets && o.PacketFrames != 1+late || !packets && o.PacketFrames != 0 {
					t.Errorf("packets %v: %d frames have a packet's time", packets, o.PacketFrames)
				}
				t.Logf("packets %v: times are off by %v at most", packets, worst)
			}
		})
	}
}

// worstOf returns how far a frame's time is from the truth at most.
func worstOf(t *testing.T, o *stream.Observation, truth []clock.Instant) (worst time.Duration) {
	t.Helper()
	for i, f := range o.Frames {
		off := f.At().Sub(truth[i])
		if off < 0 {
			t.Errorf("frame %d came %v before it was sent", i, -off)
		}
		worst = max(worst, off)
	}
	return worst
}

// Without the right to load BPF programs the error says what to do.
func TestPacketTimesWithoutTheRight(t *testing.T) {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // capabilities are a thread's; this one ends with its goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			result <- err
			return
		}
		result <- socket.CheckPacketTimes()
	}()
	err := <-result
	if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "setcap cap_bpf=ep PROGRAM") {
		t.Error(err)
	}
}

func TestPacketTimesOfManyStreams(t *testing.T) {
	streamtest.NeedPackets(t)
	playManyStreams(t, wire.Settings{PacketTimes: true})
}

// A connection on which more than the answer came is not used again, even if the rest came in a packet of its own and
// was read together with the answer.
func TestBytesBehindAnAnswerInAPacket(t *testing.T) {
	streamtest.NeedPackets(t)
	busy, sent := make(chan struct{}), make(chan struct{})
	s := testserver.NewRaw(t, func(c net.Conn, r *bufio.Reader) {
		for testserver.TakeRequest(r) {
			io.WriteString(c, testserver.ChunkedHead+testserver.Chunk(testserver.TokenFrame("a")))
			<-busy
			io.WriteString(c, testserver.Chunk(testserver.DoneFrame)+testserver.LastChunk)
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			sent <- struct{}{}
		}
	})
	c := streamtest.NewClient(t, stream.Config{Endpoints: []string{s.URL},
		Connection: wire.Settings{PacketTimes: true}})
	for i := range 3 {
		var o stream.Observation
		c.Do(t.Context(), stream.Request{Body: streamtest.Body(c), OnToken: func(clock.Instant, int) {
			busy <- struct{}{}
			<-sent
		}}, &o)
		if o.Err != nil || !o.Connected {
			t.Errorf("request %d: %v, on a new connection: %v", i, o.Err, o.Connected)
		}
	}
	c.Close()
	c.Close() // as often as one likes
}

// Offsets stay right from one answer on a connection to the next.
func TestPacketTimesOfReusedConnections(t *testing.T) {
	streamtest.NeedPackets(t)
	s := testserver.NewPeer(t, "127.0.0.1:0", true, true, nil, func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			io.WriteString(w, testserver.TokenFrame("a"))
			w.(http.Flusher).Flush()
		}
		io.WriteString(w, testserver.DoneFrame)
	})
	c := streamtest.NewClient(t, stream.Config{Endpoints: []string{s.URL},
		Connection: wire.Settings{PacketTimes: true}})
	for i := range 50 {
		o := streamtest.Ask(t, c)
		if o.Err != nil || o.PacketFrames != 3 || o.Connected != (i == 0) || o.FirstToken < o.Start ||
			o.End < o.LastToken {
			t.Fatalf("request %d: %+v", i, o)
		}
	}
}
