package ready

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/api"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
)

// slowClient answers each request after a fixed time. A word with a q in it is two tokens.
type slowClient struct {
	asked atomic.Int64
	takes time.Duration
}

func (c *slowClient) wait(ctx context.Context) error {
	c.asked.Add(1)
	select {
	case <-time.After(c.takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *slowClient) Form() workload.Form { return workload.Text }

func (c *slowClient) Models(ctx context.Context, _ int) ([]api.Model, error) {
	return []api.Model{{ID: "m", Owner: "vllm"}}, c.wait(ctx)
}

func (c *slowClient) Version(ctx context.Context, _ int) (string, error) { return "1", c.wait(ctx) }

func (c *slowClient) Tokenize(ctx context.Context, _ int, text string) (api.Tokens, error) {
	n, err := c.Measure(ctx, 0, text)
	return api.Tokens{Count: n}, err
}

func (c *slowClient) TokenizeChat(ctx context.Context, _ int, text string) (api.Tokens, error) {
	return c.Tokenize(ctx, 0, text)
}

func (c *slowClient) Measure(ctx context.Context, _ int, text string) (uint64, error) {
	return uint64(len(strings.Fields(text)) + strings.Count(text, "q")), c.wait(ctx)
}

func (c *slowClient) Probe(ctx context.Context, _ int, _ string) error { return c.wait(ctx) }

func (*slowClient) LeaveOut([]string) error { return nil }

func (c *slowClient) Try(ctx context.Context, _ int, a stream.TrialRequest) (stream.TrialResult, error) {
	return stream.TrialResult{Output: uint64(a.Tokens)}, c.wait(ctx)
}

// TestSlowServer: a slow server is asked to the end.
func TestSlowServer(t *testing.T) {
	for _, tokenizer := range []string{"server", "usage"} {
		synctest.Test(t, func(t *testing.T) {
			c := &slowClient{takes: 500 * time.Millisecond}
			f, err := Find(t.Context(), c, stageOf(&spatev1.Target{Model: "m", Tokenizer: tokenizer}), nil)
			if err != nil || len(f.Words) < minWords || c.asked.Load() <= 10 {
				t.Errorf("%s: %d words after %d questions: %v", tokenizer, len(f.Words), c.asked.Load(), err)
			}
		})
	}
}
