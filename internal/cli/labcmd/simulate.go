// Package labcmd has the commands that need nothing but this machine: `spate simulate` serves a model of LLM engines, and
// `spate calibrate` finds the load up to which this machine's agent is exact.
package labcmd

import (
	"context"
	_ "embed"
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

//go:embed help.txt
var manual command.Manual

// NewSimulate makes `spate simulate`.
func NewSimulate() *cobra.Command {
	f := newFlags()
	return manual.New("simulate", cobra.MaximumNArgs(1), f.run, f)
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
