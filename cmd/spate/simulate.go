package main

import (
	"context"
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
batch. It needs no GPU and no model. With --truth each frame carries the instant it was sent at, on this machine's monotonic clock.`,
		Example: `  spate simulate --listen 127.0.0.1:8000,127.0.0.1:8001
  spate simulate --decode-step 20ms --prefill 8000 --truth-file truth.jsonl
  spate simulate --fault 500=0.01 --fault cut=0.02`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags, c := cmd.Flags(), &f.config
	flags.StringSliceVar(&f.listen, "listen", []string{"127.0.0.1:8000"}, "`addresses` to listen on, one endpoint each")
	flags.IntVar(&c.Replicas, "replicas", c.Replicas, "equal engines behind each endpoint")
	flags.Float64Var(&c.Model.PrefillTokensPerSecond, "prefill", c.Model.PrefillTokensPerSecond, "prompt `tokens per second` of one engine")
	flags.DurationVar(&c.Model.DecodeStep, "decode-step", c.Model.DecodeStep, "time of a decode step with one running request")
	flags.DurationVar(&c.Model.DecodeStepPerRequest, "decode-step-per-request", c.Model.DecodeStepPerRequest, "time each further running request adds to it")
	flags.IntVar(&c.Model.MaxRunning, "max-running", c.Model.MaxRunning, "most requests one engine decodes at once")
	flags.StringVar(&c.ModelName, "model", c.ModelName, "model `name` to serve (default: every name)")
	flags.Uint64Var(&c.Seed, "seed", c.Seed, "seed of faults and early ends")
	flags.BoolVar(&c.EarlyEOS, "early-eos", c.EarlyEOS, "end outputs at random lengths unless a request says ignore_eos")
	flags.StringArrayVar(&f.faults, "fault", nil, "a fault and its share of requests, `KIND=SHARE`; kinds: 429, 500, garbage, garbage-frame, error-frame, cut, reset, stall, drip")
	flags.BoolVar(&c.Truth.Stamp, "truth", false, "stamp each frame with the instant it was sent at")
	flags.StringVar(&f.truthFile, "truth-file", "", "write what was sent when to this `file`, a JSON line for each request")
	flags.BoolVar(&c.AllowRemote, "allow-remote", false, "allow addresses beyond loopback: a simulator is no server to leave on a network")
	return cmd
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
