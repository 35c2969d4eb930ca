package labcmd

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/simulator/config"
)

// simulateFlags are the flags of `spate simulate`.
type simulateFlags struct {
	Listen []string `group:"served" flag:"listen" help:"<addresses> to listen on, one endpoint each"`
	config.Config
	UntilInputEnds bool          `group:"served" flag:"until-input-ends" help:"end when the input ends, as a child of another program should"`
	TLS            bool          `group:"served" flag:"tls" help:"serve HTTPS with a new certificate, and print the CA file to check it with"`
	CAFile         string        `group:"served" flag:"ca-file" help:"with --tls: write the CA to this <file>, and keep it (default: a temporary file)"`
	Speed          float64       `group:"engines" flag:"speed" default:"1" help:"run everything this many <times> faster than the flags say"`
	TTFT           time.Duration `group:"rhythm" flag:"ttft" default:"50ms" help:"time from a request to its first token"`
	ITL            time.Duration `group:"rhythm" flag:"itl" default:"10ms" help:"time from one token to the next"`
	Spread         bool          `group:"rhythm" flag:"spread" help:"each stream on its own schedule, from its arrival (the default without --ticks)"`
	Ticks          bool          `group:"rhythm" flag:"ticks" help:"all streams at the same instants, as batching engines do; first tokens at the next one"`
	Faults         []string      `group:"answers" flag:"fault" commas:"kept" help:"a fault and its share of requests, <KIND=SHARE>[,after=TOKENS][,pause=TIME]; may be repeated; kinds: see above"`
	TruthFile      string        `group:"truth" flag:"truth-file" help:"write what was sent when to this <file>, a JSON line for each request"`
}

// newFlags returns the flags with their defaults.
func newFlags() *simulateFlags {
	f := &simulateFlags{Listen: []string{"127.0.0.1:8000"}, Config: config.Default()}
	f.Processors = max(1, runtime.GOMAXPROCS(0)-1)
	return f
}

// complete fills in the settings that flags give in another form than the configuration.
func (f *simulateFlags) complete(given *pflag.FlagSet) error {
	for _, text := range f.Faults {
		fault, err := parseFault(text)
		if err != nil {
			return err
		}
		f.Config.Faults = append(f.Config.Faults, fault)
	}
	if !(f.Speed > 0) || f.Speed > fastest {
		return fmt.Errorf("--speed %v: want more than 0 and at most %d", f.Speed, fastest)
	}
	if f.Spread && f.Ticks {
		return errors.New("--spread and --ticks exclude one another: give one of them")
	}
	if slices.ContainsFunc([]string{"ttft", "itl", "spread", "ticks"}, given.Changed) {
		f.Pace = config.Pace{FirstToken: f.TTFT, BetweenTokens: f.ITL, Ticks: f.Ticks}
	}
	f.Model.SpeedUp(f.Speed)
	f.Pace.SpeedUp(f.Speed)
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

// inFlags rewrites an error of the configuration in terms of flags.
func inFlags(err error) error {
	pairs := []string{"Pace.FirstToken", "--ttft", "Pace.BetweenTokens", "--itl", "simulator: Faults", "--fault",
		"simulator: ", ""}
	fields := command.Fields(&config.Config{})
	// A longer name comes before one that it starts with.
	slices.SortFunc(fields, func(a, b command.Field) int { return cmp.Compare(len(b.Path), len(a.Path)) })
	for _, f := range fields {
		pairs = append(pairs, f.Path, f.Flag)
	}
	return errors.New(strings.NewReplacer(pairs...).Replace(err.Error()))
}

// fastest is the strongest --speed, as in plans.
const fastest = 10_000
