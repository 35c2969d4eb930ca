package streams

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func answer(reason string) *spatev1.PushResponse { return &spatev1.PushResponse{Refused: reason} }

// What comes shortly after the first message is in its batch, what comes later is not, and a batch ends when it is
// large.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := make(chan *spatev1.PushResponse)
		go func() {
			time.Sleep(time.Hour)
			in <- answer("a")
			time.Sleep(Linger - time.Nanosecond)
			in <- answer("b")
			time.Sleep(time.Second)
			for range 3 {
				in <- answer(strings.Repeat("x", 50))
			}
		}()
		for i, want := range []int{2, 2, 1} {
			batch, err := Gather(t.Context(), in, 100)
			if err != nil || len(batch) != want {
				t.Errorf("batch %d has %d messages, %v, want %d", i, len(batch), err, want)
			}
		}
	})
}

// Heartbeats wait longer for others, but not for what an agent or a coordinator must hear at once.
func TestHeartbeatsGather(t *testing.T) {
	beat := func(h *spatev1.Heartbeat) *spatev1.FromAgent {
		return &spatev1.FromAgent{Event: &spatev1.FromAgent_Said{Said: &spatev1.ConnectRequest{
			Message: &spatev1.ConnectRequest_Heartbeat{Heartbeat: h},
		}}}
	}
	for name, tc := range map[string]struct {
		second *spatev1.FromAgent
		waits  time.Duration // until the batch is there
	}{
		"another":         {beat(&spatev1.Heartbeat{Number: 2}), patience},
		"its load ended":  {beat(&spatev1.Heartbeat{Ended: &spatev1.AssignmentRef{}}), patience/2 + Linger},
		"it is leaving":   {beat(&spatev1.Heartbeat{Leaving: true}), patience/2 + Linger},
		"something else":  {&spatev1.FromAgent{Event: &spatev1.FromAgent_Ended{}}, patience/2 + Linger},
		"an empty answer": {&spatev1.FromAgent{}, patience/2 + Linger},
	} {
		synctest.Test(t, func(t *testing.T) {
			in, begin := make(chan *spatev1.FromAgent), time.Now()
			go func() {
				in <- beat(&spatev1.Heartbeat{Number: 1})
				time.Sleep(patience / 2)
				in <- tc.second
			}()
			batch, err := Gather(t.Context(), in, 1000)
			if got := time.Since(begin); err != nil || len(batch) != 2 || got != tc.waits {
				t.Errorf("%s: %d messages, %v, after %v", name, len(batch), err, got)
			}
		})
	}
}

// When the context ends, the messages of a batch that is not complete are returned.
func TestGatherLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), Linger/2)
		defer cancel()
		in := make(chan *spatev1.PushResponse, 1)
		in <- answer("a")
		batch, err := Gather(ctx, in, 100)
		if len(batch) != 1 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d messages, %v", len(batch), err)
		}
	})
}

// How a stream ended is the same on the other side of a relay.
func TestEnds(t *testing.T) {
	for _, regular := range []error{nil, io.EOF} {
		if got := ErrorOf(EndOf(regular)); !errors.Is(got, io.EOF) {
			t.Errorf("%v becomes %v", regular, got)
		}
	}
	got := ErrorOf(EndOf(status.Error(codes.AlreadyExists, "the name is taken")))
	if status.Code(got) != codes.AlreadyExists || status.Convert(got).Message() != "the name is taken" {
		t.Errorf("%v", got)
	}
}

// Messages survive compression, many at once, and garbage is an error.
func TestZstd(t *testing.T) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 20 {
				text := strings.Repeat("message ", 1000*i+n)
				var packed bytes.Buffer
				w, err := compressor{}.Compress(&packed)
				if err == nil {
					_, err = io.WriteString(w, text)
				}
				if err = errors.Join(err, w.Close()); err != nil {
					t.Error(err)
				}
				r, err := compressor{}.Decompress(&packed)
				if err != nil {
					t.Error(err)
					continue
				}
				if got, err := io.ReadAll(r); string(got) != text || err != nil {
					t.Errorf("%d of %d bytes, %v", len(got), len(text), err)
				}
			}
		})
	}
	all.Wait()
	if r, err := (compressor{}).Decompress(strings.NewReader("garbage")); err == nil {
		if _, err := io.ReadAll(r); err == nil {
			t.Error("garbage is a message")
		}
	}
}
