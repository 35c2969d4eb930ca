package ready

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/internal/words"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// readyClient asks endpoints whether they are ready. *stream.Client implements it.
type readyClient interface {
	// Ready returns nil if an endpoint is ready, ctx's error if that ended, and else what the endpoint answers.
	Ready(ctx context.Context, endpoint int, r *spatev1.Ready) error
}

const (
	// readyInterval is the time between two questions whether an endpoint is ready.
	readyInterval = time.Second
	// quietWait is how long a wait is at least silent while answers do not change.
	quietWait = time.Minute
)

// Await waits until all endpoints of a target are ready, for as long as its plan says, and returns how often they were
// asked. Its error says what an endpoint that is not ready answered last, or is the cause of ctx's end. Await calls say
// with what an endpoint answers, and seldom again while that stays the same. say must be safe for concurrent use.
func Await(
	ctx context.Context, client readyClient, t *spatev1.Target, say func(text string),
) (asked uint32, err error) {
	limited, cancel := context.WithTimeout(ctx, t.GetReady().GetWithin().AsDuration())
	defer cancel()
	var group errgroup.Group
	group.SetLimit(maxChecks)
	var count atomic.Uint32
	for i := range t.GetEndpoints() {
		group.Go(func() error { return awaitOne(limited, client, t, i, &count, say) })
	}
	err = group.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return count.Load(), err
}

// awaitOne waits until one endpoint is ready.
func awaitOne(
	ctx context.Context, client readyClient, t *spatev1.Target, i int, count *atomic.Uint32, say func(string),
) error {
	span := func(d time.Duration) string { return words.Span(d.Round(time.Second).Seconds()) }
	endpoint, within := endpointWords(t, i), span(t.GetReady().GetWithin().AsDuration())
	ready := t.GetReady()
	if ready.GetPath() == "" && t.GetModel() == "" {
		ready = nil // no request can be sent: that the models are listed has to do
	}
	begin, quiet, said, last := time.Now(), quietWait, "", "no answer"
	for {
		count.Add(1)
		err := client.Ready(ctx, i, ready)
		waited := time.Since(begin)
		switch {
		case err == nil && said != "":
			say(fmt.Sprintf("%s is ready after %s", endpoint, span(waited)))
			return nil
		case err == nil:
			return nil
		case ctx.Err() == nil:
			last = answerWords(err)
		}
		if ctx.Err() == nil && (last != said || waited >= quiet) {
			say(fmt.Sprintf("waiting for %s, %s of %s: %s", endpoint, span(waited), within, last))
			said, quiet = last, max(quietWait, 2*waited)
		}
		select {
		case <-time.After(readyInterval):
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready within %s: %s", endpoint, within, last)
		}
	}
}

// Dead returns nil if at least one endpoint of a target is ready, or if ctx ends first. Else the error is one line that
// says what the first endpoint answers and what to do.
func Dead(ctx context.Context, client readyClient, t *spatev1.Target) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(t.GetEndpoints()))
	var group errgroup.Group
	group.SetLimit(maxChecks)
	for i := range errs {
		group.Go(func() error {
			if errs[i] = client.Ready(ctx, i, nil); errs[i] == nil {
				cancel() // the others need no answer
			}
			return nil
		})
	}
	_ = group.Wait() // it returns no errors
	if ctx.Err() != nil || len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%s %s", endpointWords(t, 0), deadWords(errs[0]))
}

// endpointWords names an endpoint, and its target unless that has the same name.
func endpointWords(t *spatev1.Target, i int) string {
	endpoint := t.GetEndpoints()[i]
	if strings.HasSuffix(endpoint, "//"+t.GetName()) {
		return endpoint
	}
	return endpoint + " of target " + t.GetName()
}

// deadWords says of an endpoint what is wrong with it, and what to do.
func deadWords(err error) string {
	answer, _ := errors.AsType[*stream.Error](err)
	switch said := answerWords(err); {
	case answer != nil && answer.Class == spatev1.ErrorClass_ERROR_CLASS_TLS:
		return "does not answer: " + said
	case answer == nil || answer.HTTPStatus == 0:
		return "does not answer: " + said + ": start the server, correct the address, or wait with --wait-ready 10m" + proxyHint()
	case answer.HTTPStatus >= http.StatusInternalServerError && answer.HTTPStatus != http.StatusNotImplemented:
		return "is not ready: " + said + ": wait with --wait-ready 10m"
	case answer.HTTPStatus == http.StatusUnauthorized:
		return "refuses the API key: " + said + ": say where the right one is, --api-key env:NAME or api_key in the plan"
	default:
		return "does not serve this API or model: " + said + ": correct the address, the api or the model"
	}
}

// proxyHint says that Spate does not use a proxy that the environment names. Empty: it names none.
func proxyHint() string {
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"} {
		if os.Getenv(name)+os.Getenv(strings.ToLower(name)) != "" {
			return "; " + name + " is not used: set the target's connection: {proxy: ...}"
		}
	}
	return ""
}

// answerWords returns what an endpoint answered, in one line.
func answerWords(err error) string {
	const most = 200
	text := words.Printable(strings.Join(strings.Fields(words.Message(err.Error())), " "))
	if rest, ok := strings.CutPrefix(text, "connect to "); ok {
		_, text, _ = strings.Cut(rest, ": ")
	}
	return words.Cut(strings.TrimSuffix(text, ":"), most) // an answer without a body
}
