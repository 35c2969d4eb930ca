package calibration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"runtime"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spate-load/spate/agent"
	"github.com/spate-load/spate/agent/host"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/simulator"
	"github.com/spate-load/spate/simulator/config"
)

// agentSetup is what the agent's process needs to start.
type agentSetup struct {
	Coordinator string `json:"coordinator"` // gRPC target
}

// simulatorSetup is what the simulator's process needs to start.
type simulatorSetup struct {
	Step   time.Duration `json:"step_ns"` // between two tokens of a stream
	Spread bool          `json:"spread"`  // streams tick one after another
	// Endpoints is the number of endpoints for long streams.
	Endpoints int `json:"endpoints"`
}

// endpoints are the simulator's endpoints: for long streams, and for short requests.
type endpoints struct {
	Streams []string `json:"streams"`
	Short   []string `json:"short"`
}

// observed is the agent process's answer to a question.
type observed struct {
	Usage
	Reading
}

// ServeAgent runs the agent's process: it blocks and serves until its input ends. It returns errors of the setup and of
// the agent.
func ServeAgent(in io.Reader, out io.Writer, errs io.Writer, version string) error {
	var setup agentSetup
	questions := json.NewDecoder(in)
	if err := questions.Decode(&setup); err != nil {
		return fmt.Errorf("setup: %w", err)
	}
	logger := slog.New(slog.NewTextHandler(errs, &slog.HandlerOptions{Level: slog.LevelError}))
	host.CollectLess() // as agent commands do
	if err := host.RealtimeAuto.Apply(logger); err != nil {
		return err
	}
	g := newGauge(runtime.GOMAXPROCS(0))
	a, err := agent.New(agent.Config{
		Name: "calibration", Version: version, NewWatch: g.watch, AllowedTargets: []string{"127.0.0.1"},
		Logger:      logger,
		Coordinator: func(context.Context) (string, error) { return setup.Coordinator, nil },
		DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	defer func() { cancel(); <-done }() //nolint:errcheck // it was told to end
	return answerAll(questions, out, struct{}{}, func() any { return observed{ownUsage(), g.read()} })
}

// ServeSimulator runs the simulator's process: it blocks and serves until its input ends. It returns errors of the
// setup and of the simulator.
func ServeSimulator(in io.Reader, out io.Writer) error {
	var setup simulatorSetup
	questions := json.NewDecoder(in)
	if err := questions.Decode(&setup); err != nil {
		return fmt.Errorf("setup: %w", err)
	}
	var where endpoints
	for _, one := range []struct {
		step      time.Duration
		endpoints int
		urls      *[]string
	}{{setup.Step, setup.Endpoints, &where.Streams}, {shortStep, 1, &where.Short}} {
		server, err := simulator.Start(engineOf(one.step, setup.Spread, one.endpoints))
		if err != nil {
			return err
		}
		defer func() { _ = server.Close(ended()) }() //nolint:gocritic // both serve until the input ends
		*one.urls = server.URLs()
	}
	return answerAll(questions, out, where, func() any { return ownUsage() })
}

// ended returns a context that has ended, so that Close cuts off the remaining requests.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// maxRunning is how many requests a simulated engine may have in progress: more streams than a machine can have.
const maxRunning = 1 << 20

// engineOf returns engines limited only by their pace, one for each endpoint: the first token at once, and then one
// each step. Their frames contain the truth.
func engineOf(step time.Duration, spread bool, endpoints int) config.Config {
	c := config.Default()
	c.Endpoints = endpoints
	c.Model = config.Model{
		PrefillTokensPerSecond: math.Inf(1), DecodeStep: step, MaxRunning: maxRunning,
		CacheBlockTokens: c.Model.CacheBlockTokens, SpreadStep: spread,
	}
	c.Truth.Stamp = true
	c.Processors = runtime.GOMAXPROCS(0) // those of the simulator's own cores
	return c
}

// answerAll answers the setup with made, and each question until there are no more.
func answerAll(questions *json.Decoder, out io.Writer, made any, answer func() any) error {
	say := json.NewEncoder(out)
	if err := say.Encode(made); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	for {
		var question json.RawMessage
		if err := questions.Decode(&question); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("question: %w", err)
		}
		if err := say.Encode(answer()); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
}

// ownUsage returns what this process has used so far.
func ownUsage() Usage { return Usage{At: clock.Now(), CPU: clock.CPU()} }
