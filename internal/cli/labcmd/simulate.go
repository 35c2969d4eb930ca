// Package labcmd has the commands that need nothing but this machine: `spate simulate` serves a model of LLM engines, and
// `spate calibrate` finds the load up to which this machine's agent is exact.
package labcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/simulator"
	"github.com/spate-load/spate/simulator/config"
)

// NewSimulate makes `spate simulate`.
func NewSimulate() *cobra.Command {
	f := newFlags()
	cmd := &cobra.Command{
		Use:   "simulate [FILE]",
		Short: "Serve a model of LLM engines behind the APIs of today's servers",
		Long: `Serve a model of LLM engines: a prefill queue, continuous batching, and decode steps whose time
depends on the batch. It needs no GPU and no model. FILE has settings in YAML, the fields of a
plan's simulator (docs/simulator.md); --set and flags change them. Engines prefill and decode, or,
with --prefill-engines, form a disaggregated group: 3P1D is --prefill-engines 3 --replicas 1. With
--ttft and --itl a steady rate replaces them, so that what a client should see is known.

Every address serves OpenAI's chat, completions and responses below /v1, Anthropic's /v1/messages,
SGLang's /generate, embeddings, rerank and scores; also /v1/models, /tokenize, /health and /metrics.`,
		Example: `  spate simulate --listen 127.0.0.1:8000,127.0.0.1:8001
  spate simulate engine.yaml --decode-step 20ms --truth-file truth.jsonl
  spate simulate --prefill-engines 3 --replicas 1 --set transfer_per_thousand_tokens=20ms
  spate simulate --ttft 50ms --itl 10ms --ticks --truth
  spate simulate --fault 500=0.01 --fault cut=0.02,after=10
  spate simulate --tls --http 2`,
		Args: command.Arguments(cobra.MaximumNArgs(1)),
		RunE: f.run,
	}
	command.Declare(cmd.Flags(), f)
	return cmd
}

// run serves until an interrupt.
func (f *simulateFlags) run(cmd *cobra.Command, args []string) error {
	if err := f.complete(cmd.Flags(), args); err != nil {
		return command.BadInput(err)
	}
	closeTruth, err := f.openTruth()
	if err != nil {
		return command.BadInput(err)
	}
	defer closeTruth()
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ca, dropCA, err := f.secure()
	if err != nil {
		return command.BadInput(err)
	}
	defer dropCA()
	if err := f.Validate(); err != nil {
		return command.BadInput(err)
	}
	server, err := simulator.Start(f.Config, f.Listen...)
	if err != nil {
		return command.BadInput(err)
	}
	if ca != "" {
		fmt.Fprintln(cmd.OutOrStdout(), "CA file of the certificate: "+ca)
	}
	fmt.Fprintln(cmd.OutOrStdout(), "Serving "+strings.Join(server.URLs(), ", ")+"; Ctrl-C stops it")
	if f.UntilInputEnds {
		go func() { _, _ = io.Copy(io.Discard, cmd.InOrStdin()); stop() }()
	}
	<-ctx.Done()
	grace, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := server.Close(grace); err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "requests in flight were cancelled")
	}
	return nil
}

// openTruth opens the truth file, if the flags ask for one.
func (f *simulateFlags) openTruth() (closeTruth func(), err error) {
	if f.TruthFile == "" {
		if f.Truth.Tokens {
			return nil, errors.New("--truth-tokens needs --truth-file, which the times are written to")
		}
		return func() {}, nil
	}
	file, err := os.Create(f.TruthFile)
	if err != nil {
		return nil, fmt.Errorf("--truth-file: %w", err)
	}
	f.Truth.Log = file
	return func() { _ = file.Close() }, nil
}

// secure makes the certificate, if the flags ask for TLS, and writes the CA file that clients need to check it. If no
// flag names the CA file, drop removes it.
func (f *simulateFlags) secure() (path string, drop func(), err error) {
	if !f.TLS {
		if f.CAFile != "" {
			return "", nil, errors.New("--ca-file needs --tls")
		}
		return "", func() {}, nil
	}
	config, ca, err := config.SelfSigned(time.Now(), f.hosts()...)
	if err != nil {
		return "", nil, err
	}
	f.Protocol.TLS = config
	path, drop = f.CAFile, func() {}
	if path == "" {
		dir, err := os.MkdirTemp("", "spate-simulate-")
		if err != nil {
			return "", nil, fmt.Errorf("cannot write the CA file: %w; name another place with --ca-file", err)
		}
		path, drop = filepath.Join(dir, "ca.pem"), func() { _ = os.RemoveAll(dir) }
	}
	if err := os.WriteFile(path, ca, 0o644); err != nil {
		drop()
		return "", nil, fmt.Errorf("--ca-file: %w", err)
	}
	return path, drop, nil
}
