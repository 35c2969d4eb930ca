package ready

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// startingClient answers as a server does that refuses connections, then loads its model, then is ready.
type startingClient struct {
	begin       time.Time
	loads, come time.Duration // 0: never
	hangs       bool          // it does not answer while it loads
}

var (
	errRefused = &stream.Error{Class: spatev1.ErrorClass_ERROR_CLASS_CONNECT,
		Message: "connect to h:80: connection refused"}
	errLoading = &stream.Error{Class: spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS, HTTPStatus: 503,
		Message: "POST /x: 503 Service Unavailable: Loading\nmodel"}
	errMissing = &stream.Error{Class: spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS, HTTPStatus: 404,
		Message: "POST /x: 404 Not Found"}
)

func (c *startingClient) Ready(ctx context.Context, _ int, _ *spatev1.Ready) error {
	switch up := time.Since(c.begin); {
	case c.come > 0 && up >= c.come:
		return nil
	case c.loads == 0 || up < c.loads:
		return errRefused
	case c.hangs:
		<-ctx.Done()
		return ctx.Err()
	}
	return errLoading
}

func waitingTarget(within time.Duration) *spatev1.Target {
	return &spatev1.Target{Name: "t", Model: "m", Endpoints: []string{"http://h"},
		Ready: &spatev1.Ready{Within: durationpb.New(within)}}
}

func TestAwait(t *testing.T) {
	for name, tt := range map[string]struct {
		client startingClient
		within time.Duration
		said   []string
		err    string
		asked  uint32
		took   time.Duration
	}{
		"is there": {startingClient{come: 1}, time.Minute, nil, "", 1, 0},
		"comes": {startingClient{loads: 20 * time.Second, come: 34 * time.Second}, 10 * time.Minute, []string{
			"waiting for http://h of target t, 0s of 10m: connection refused",
			"waiting for http://h of target t, 20s of 10m: POST /x: 503 Service Unavailable: Loading model",
			"http://h of target t is ready after 34s"}, "", 35, 34 * time.Second},
		"never comes": {startingClient{}, 299500 * time.Millisecond, []string{
			"waiting for http://h of target t, 0s of 5m: connection refused",
			"waiting for http://h of target t, 1m of 5m: connection refused",
			"waiting for http://h of target t, 2m of 5m: connection refused",
			"waiting for http://h of target t, 4m of 5m: connection refused"},
			"http://h of target t was not ready within 5m: connection refused", 300, 299500 * time.Millisecond},
		"hangs": {startingClient{loads: time.Second, hangs: true}, time.Minute, []string{
			"waiting for http://h of target t, 0s of 1m: connection refused"},
			"http://h of target t was not ready within 1m: connection refused", 2, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				tt.client.begin = begin.Add(-1)
				var mu sync.Mutex
				var said []string
				asked, err := Await(t.Context(), &tt.client, waitingTarget(tt.within), func(text string) {
					mu.Lock()
					defer mu.Unlock()
					said = append(said, text)
				})
				if took := time.Since(begin); took != tt.took || asked != tt.asked {
					t.Errorf("took %v and %d requests, want %v and %d", took, asked, tt.took, tt.asked)
				}
				if (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
					t.Errorf("%v, want %q", err, tt.err)
				}
				if !slices.Equal(said, tt.said) {
					t.Errorf("said %q", said)
				}
			})
		})
	}
}

// Somebody who stops waiting is not told that the server is dead.
func TestAwaitStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		errLeft := errors.New("left")
		time.AfterFunc(10*time.Second, func() { cancel(errLeft) })
		begin := time.Now()
		_, err := Await(ctx, &startingClient{begin: begin}, waitingTarget(time.Hour), func(string) {})
		if took := time.Since(begin); !errors.Is(err, errLeft) || took != 10*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// endpointsClient gives each endpoint its answer.
type endpointsClient []error

func (c endpointsClient) Ready(ctx context.Context, endpoint int, _ *spatev1.Ready) error {
	if errors.Is(c[endpoint], context.DeadlineExceeded) {
		<-ctx.Done()
		return ctx.Err()
	}
	return c[endpoint]
}

// A target is dead if all its endpoints are. The message is one line, and says what to do.
func TestDead(t *testing.T) {
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy"} {
		t.Setenv(name, "")
	}
	for name, tt := range map[string]struct {
		answers endpointsClient
		want    string
	}{
		"alive":       {endpointsClient{nil}, ""},
		"one alive":   {endpointsClient{errRefused, nil, errLoading}, ""},
		"one unknown": {endpointsClient{errRefused, context.DeadlineExceeded}, ""},
		"refused": {endpointsClient{errRefused, errMissing}, "http://a of target t does not answer: connection refused: " +
			"start the server, correct the address, or wait with --wait-ready 10m"},
		"loads": {endpointsClient{errLoading, errMissing}, "http://a of target t is not ready: POST /x: 503 Service " +
			"Unavailable: Loading model: wait with --wait-ready 10m"},
		"no POST": {endpointsClient{&stream.Error{HTTPStatus: 501, Message: "POST /x: 501"}}, "http://a of target t does not serve " +
			"this API or model: POST /x: 501: correct the address, the api or the model"},
		"no key": {endpointsClient{&stream.Error{HTTPStatus: 401, Message: "POST /x: 401 Unauthorized:"}}, "http://a of target t " +
			"refuses the API key: POST /x: 401 Unauthorized: say where the right one is, --api-key env:NAME or api_key in the plan"},
		"missing": {endpointsClient{errMissing}, "http://a of target t does not serve this API or model: POST /x: 404 Not " +
			"Found: correct the address, the api or the model"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				target := &spatev1.Target{Name: "t", Endpoints: []string{"http://a", "http://b", "http://c"}[:len(tt.answers)]}
				err := Dead(ctx, tt.answers, target)
				if (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
					t.Errorf("%v, want %q", err, tt.want)
				}
			})
		})
	}
}

// A proxy of the environment, which Spate does not use, may be why a server is not reached.
func TestProxyHint(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "")
	t.Setenv("https_proxy", "")
	t.Setenv("HTTP_PROXY", "")
	t.Setenv("http_proxy", "http://proxy:3128")
	if said := deadWords(errRefused); !strings.HasSuffix(said,
		"--wait-ready 10m; HTTP_PROXY is not used: set the target's connection: {proxy: ...}") {
		t.Error(said)
	}
}
