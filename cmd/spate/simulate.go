package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/simulator"
)

// simulateFlags are the flags of `spate simulate`.
type simulateFlags struct {
	config    simulator.Config
	speed     float64
	listen    []string
	truthFile string
	faults    []string
}

func newSimulate() *cobra.Command {
	f := &simulateFlags{config: simulator.Default()}
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Serve a model of LLM engines behind the OpenAI API",
		Long: `Serve a model of LLM engines behind the OpenAI API: a prefill queue, continuous batching, and decode steps whose time depends on the
batch. It needs no GPU and no model. Engines prefill and decode, or, with --prefill-engines, stand in a disaggregated group: 3P1D is
--prefill-engines 3 --replicas 1. With --truth each frame carries the instant it was sent at, on this machine's monotonic clock.`,
		Example: `  spate simulate --listen 127.0.0.1:8000,127.0.0.1:8001
  spate simulate --decode-step 20ms --prefill 8000 --truth-file truth.jsonl
  spate simulate --prefill-engines 3 --replicas 1 --transfer-per-thousand-tokens 20ms --cache-blocks 50000
  spate simulate --fault 500=0.01 --fault cut=0.02`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.addFlags(cmd)
	return cmd
}

func (f *simulateFlags) addFlags(cmd *cobra.Command) {
	c, m := &f.config, &f.config.Model
	served := group("What is served")
	flags := served.flags
	flags.StringSliceVar(&f.listen, "listen", []string{"127.0.0.1:8000"}, "`addresses` to listen on, one endpoint each")
	flags.StringVar(&c.ModelName, "model", c.ModelName, "model `name` to serve (default: every name)")
	flags.IntVar(&c.MaxModelTokens, "max-model-tokens", c.MaxModelTokens, "longest prompt and output together, told by /v1/models (default: no limit)")
	flags.BoolVar(&c.AllowRemote, "allow-remote", false, "allow addresses beyond loopback: a simulator is no server to leave on a network")

	engines := group("The engines behind each endpoint")
	flags = engines.flags
	flags.IntVar(&c.Replicas, "replicas", c.Replicas, "equal engines; with --prefill-engines those that decode")
	flags.IntVar(&c.PrefillEngines, "prefill-engines", c.PrefillEngines, "engines that do prefill alone, so that the replicas decode alone (default: each does both)")
	flags.Float64Var(&m.PrefillTokensPerSecond, "prefill", m.PrefillTokensPerSecond, "prompt `tokens per second` of one engine")
	flags.DurationVar(&m.DecodeStep, "decode-step", m.DecodeStep, "time of a decode step with one running request")
	flags.DurationVar(&m.DecodeStepPerRequest, "decode-step-per-request", m.DecodeStepPerRequest, "time that each further running request adds to it")
	flags.BoolVar(&m.SpreadStep, "spread-step", m.SpreadStep, "send the tokens of a decode step evenly over it (default: all at its end, as engines that batch do)")
	flags.IntVar(&m.MaxRunning, "max-running", m.MaxRunning, "most requests that one engine has under way; the rest queue")
	flags.Float64Var(&m.PrefillInterference, "prefill-interference", m.PrefillInterference,
		"`share` of its decoding pace that an engine loses while it prefills, from 0 to 1 (default 0)")
	flags.DurationVar(&m.TransferPerThousandTokens, "transfer-per-thousand-tokens", m.TransferPerThousandTokens,
		"with --prefill-engines: time to hand over the KV cache of 1,000 prompt tokens")
	flags.DurationVar(&m.Overhead, "overhead", m.Overhead, "time that each request takes beside prefill and decode, before its first token")
	flags.Float64Var(&f.speed, "speed", 1, "run everything this many `times` faster than the flags say")

	cache := group("Their prefix cache")
	flags = cache.flags
	flags.IntVar(&m.CacheBlocks, "cache-blocks", m.CacheBlocks, "`blocks` that an engine's prefix cache holds (default: there is none)")
	flags.IntVar(&m.CacheBlockTokens, "cache-block-tokens", m.CacheBlockTokens, "prompt `tokens` of each block")

	answers := group("What the answers are like")
	flags = answers.flags
	flags.IntVar(&c.Frames.TokensPerFrame, "tokens-per-frame", c.Frames.TokensPerFrame, "`tokens` of one frame, as with speculative decoding")
	flags.BoolVar(&c.EarlyEOS, "early-eos", c.EarlyEOS, "end outputs at random lengths unless a request says ignore_eos")
	flags.StringArrayVar(&f.faults, "fault", nil, "a fault and its share of requests, `KIND=SHARE`; kinds: 429, 500, garbage, garbage-frame, error-frame, cut, reset, stall, drip")
	flags.Uint64Var(&c.Seed, "seed", c.Seed, "seed of faults and early ends")

	truth := group("The truth about them")
	flags = truth.flags
	flags.BoolVar(&c.Truth.Stamp, "truth", false, "stamp each frame with the instant it was sent at")
	flags.StringVar(&f.truthFile, "truth-file", "", "write what was sent when to this `file`, a JSON line for each request")
	setGroups(cmd, served, engines, cache, answers, truth)
}

// run serves until an interrupt.
func (f *simulateFlags) run(cmd *cobra.Command) error {
	closeTruth, err := f.complete()
	if err != nil {
		return badInput(err)
	}
	defer closeTruth()
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := f.config.Validate(); err != nil {
		return badInput(inFlags(err))
	}
	server, err := simulator.Start(f.config, f.listen...)
	if err != nil {
		return badInput(err)
	}
	fmt.Fprintln(cmd.OutOrStdout(), "Serving "+strings.Join(server.URLs(), ", ")+"; Ctrl-C ends it")
	<-ctx.Done()
	grace, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := server.Close(grace); err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "requests under way were cut off")
	}
	return nil
}

// complete fills in what flags give in another form than the configuration has it.
func (f *simulateFlags) complete() (closeTruth func(), err error) {
	for _, text := range f.faults {
		kind, share, _ := strings.Cut(text, "=")
		probability, err := strconv.ParseFloat(share, 64)
		if err != nil {
			return nil, fmt.Errorf("--fault %q: want KIND=SHARE, for example 500=0.01", text)
		}
		f.config.Faults = append(f.config.Faults, simulator.Fault{Kind: simulator.FaultKind(kind), Probability: probability, AfterTokens: 1})
	}
	if !(f.speed > 0) || f.speed > maxSpeed {
		return nil, fmt.Errorf("--speed %v: want more than 0 and at most %d", f.speed, maxSpeed)
	}
	f.config.Model.SpeedUp(f.speed)
	if f.truthFile == "" {
		return func() {}, nil
	}
	file, err := os.Create(f.truthFile)
	if err != nil {
		return nil, fmt.Errorf("--truth-file: %w", err)
	}
	f.config.Truth.Log = file
	return func() { _ = file.Close() }, nil
}

// fieldFlags are the flags of the simulator's fields. A longer name stands before one that it begins with.
var fieldFlags = strings.NewReplacer(
	"simulator: Replicas", "--replicas", "simulator: PrefillEngines", "--prefill-engines", "simulator: MaxModelTokens", "--max-model-tokens",
	"simulator: Model.PrefillTokensPerSecond", "--prefill", "simulator: Model.DecodeStepPerRequest", "--decode-step-per-request",
	"simulator: Model.DecodeStep", "--decode-step", "simulator: Model.MaxRunning", "--max-running",
	"simulator: Model.PrefillInterference", "--prefill-interference", "simulator: Model.TransferPerThousandTokens", "--transfer-per-thousand-tokens",
	"simulator: Model.Overhead", "--overhead", "simulator: Model.CacheBlockTokens", "--cache-block-tokens", "simulator: Model.CacheBlocks", "--cache-blocks",
	"simulator: Frames.TokensPerFrame", "--tokens-per-frame", "simulator: Faults", "--fault ",
)

// inFlags says an error of the configuration in the words of flags.
func inFlags(err error) error { return errors.New(fieldFlags.Replace(err.Error())) }
