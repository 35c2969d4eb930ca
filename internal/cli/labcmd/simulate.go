// Package labcmd has the commands that need nothing but this machine: `spate simulate` serves a model of LLM engines, and
// `spate calibrate` finds the load up to which this machine's agent is exact.
package labcmd

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/simulator"
	"github.com/spate-load/spate/simulator/config"
)

//go:embed help.txt
var manual command.Manual

// NewSimulate makes `spate simulate`.
func NewSimulate() *cobra.Command {
	f := &simulateFlags{Listen: []string{"127.0.0.1:8000"}, Config: config.Default()}
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

// simulateFlags are the flags of `spate simulate`.
type simulateFlags struct {
	Listen []string `group:"What is served" flag:"listen" help:"<addresses> to listen on, one endpoint each"`
	config.Config
	UntilInputEnds bool          `group:"What is served" rare:"yes" flag:"until-input-ends" help:"end when the input ends, as a child of another program should"`
	TLS            bool          `group:"What is served" flag:"tls" help:"serve HTTPS with a new certificate, and print the CA file to check it with"`
	CAFile         string        `group:"What is served" rare:"yes" flag:"ca-file" help:"with --tls: write the CA to this <file>, and keep it (default: a temporary file)"`
	Set            []string      `group:"Engines" flag:"set" commas:"kept" typed:"only" help:"a setting of the simulator as in a plan, <FIELD=VALUE>, for example prefill_tokens_per_second=8000; may be repeated"`
	Engine         engineFlags   `group:"Engines"`
	TTFT           time.Duration `group:"A steady rate instead of engines" flag:"ttft" default:"50ms" help:"time from a request to its first token"`
	ITL            time.Duration `group:"A steady rate instead of engines" flag:"itl" default:"10ms" help:"time from one token to the next"`
	Ticks          bool          `group:"A steady rate instead of engines" flag:"ticks" help:"all streams at the same instants, as batching engines do (default: each on its own schedule, from its arrival)"`
	Faults         []string      `group:"Answers" flag:"fault" commas:"kept" help:"a fault and its share of requests, <KIND=SHARE>[,after=TOKENS][,pause=TIME]; may be repeated; kinds: docs/simulator.md"`
	TruthFile      string        `group:"The truth" flag:"truth-file" help:"write what was sent when to this <file>, a JSON line for each request"`
}

// engineFlags are settings of --set that have flags of their own: the fields of these names, with underscores.
type engineFlags struct {
	DecodeStep     string `flag:"decode-step" help:"<time> of a decode step with one running request (default 5ms)"`
	MaxRunning     string `flag:"max-running" help:"largest <number> of requests that one engine runs; the rest queue (default 256)"`
	Replicas       string `flag:"replicas" help:"<number> of equal engines; with --prefill-engines those that decode (default 1)"`
	PrefillEngines string `flag:"prefill-engines" help:"<number> of engines that only prefill, so that the replicas only decode (default: each does both)"`
	Speed          string `flag:"speed" help:"run everything this many <times> faster than the settings say (default 1)"`
}

// block returns the settings that a plan has, too: those of a file, of --set, and of flags, which win in this order.
func (f *simulateFlags) block(given *pflag.FlagSet, args []string) (*spatev1.SimulatedTarget, error) {
	path, text := "", []byte("{}")
	if len(args) > 0 {
		var err error
		path = args[0]
		if text, err = files.ReadFile(path, maxBlock); err != nil {
			return nil, err
		}
	}
	set := slices.Clone(f.Set)
	for _, name := range command.Names(&f.Engine) {
		if given.Changed(name) {
			set = append(set, strings.ReplaceAll(name, "-", "_")+"="+given.Lookup(name).Value.String())
		}
	}
	return plans.LoadSimulator(path, text, set)
}

// maxBlock is the largest size of a file of settings, in bytes.
const maxBlock = 1 << 20

// complete fills in the settings that flags and files give in another form than the configuration.
func (f *simulateFlags) complete(given *pflag.FlagSet, args []string) error {
	block, err := f.block(given, args)
	if err != nil {
		return err
	}
	if slices.ContainsFunc([]string{"ttft", "itl", "ticks"}, given.Changed) {
		f.Pace = config.Pace{FirstToken: f.TTFT, BetweenTokens: f.ITL, Ticks: f.Ticks}
	}
	f.Take(block)
	for _, text := range f.Faults {
		fault, err := parseFault(text)
		if err != nil {
			return err
		}
		f.Config.Faults = append(f.Config.Faults, fault)
	}
	return nil
}

// parseFault parses KIND=SHARE and the settings after it.
func parseFault(text string) (config.Fault, error) {
	wrong := fmt.Errorf("--fault %q: want KIND=SHARE, for example 500=0.01 or stall=0.01,after=20,pause=2s", text)
	parts := strings.Split(text, ",")
	kind, share, _ := strings.Cut(parts[0], "=")
	probability, err := strconv.ParseFloat(share, 64)
	if err != nil {
		return config.Fault{}, wrong
	}
	fault := config.Fault{Kind: config.FaultKind(kind), Probability: probability, AfterTokens: 1}
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "after":
			fault.AfterTokens, err = strconv.Atoi(value)
		case "pause":
			fault.Pause, err = time.ParseDuration(value)
		default:
			err = wrong
		}
		if err != nil {
			return config.Fault{}, wrong
		}
	}
	return fault, nil
}

// hosts returns the hosts that the simulator listens on, for its certificate.
func (f *simulateFlags) hosts() []string {
	var hosts []string
	for _, addr := range f.Listen {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			hosts = append(hosts, host)
		}
	}
	return hosts
}
