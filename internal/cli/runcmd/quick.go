package runcmd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/internal/cli/settings"
	"github.com/spate-load/spate/plans/draft"
)

// quickFlags make a plan for the common case, without a file.
type quickFlags struct {
	targets                []string
	model, api, apiKey     string
	headers, body          []string
	concurrency            []uint
	rate                   []float64
	arrival, split         string
	conditioned, stream    bool
	stagger                time.Duration
	maxInFlight            uint32
	isl, osl               uint32
	requests               uint64
	requestsPerConcurrency uint64
	duration               time.Duration
	warmupRequests         uint64
	warmup                 time.Duration
	seed                   uint64
}

// quickNames are the flags that make a plan.
var quickNames = []string{
	"target", "model", "api", "stream", "api-key", "header", "body", "concurrency", "rate", "arrival", "conditioned", "split",
	"max-in-flight", "stagger", "isl", "osl", "requests",
	"requests-per-concurrency", "duration", "warmup", "warmup-requests", "seed",
}

func (q *quickFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&q.targets, "target", nil,
		"base `URL`, or host:port, of the deployment under test; several are endpoints of one deployment")
	flags.StringVar(&q.model, "model", "", "model name to ask for (default: the only one that the server lists)")
	flags.StringVar(&q.api, "api", "", "API of the endpoints: "+strings.Join(registry.Names(), ", ")+" (default chat)")
	flags.BoolVar(&q.stream, "stream", true,
		"ask for streams; false: for answers in one piece, which have no TTFT, TPOT and ITL")
	flags.StringVar(&q.apiKey, "api-key", "", "where the API key is: env:NAME or file:PATH")
	flags.StringArrayVar(&q.headers, "header", nil,
		"extra request header `NAME=VALUE` (VALUE may be env:NAME or file:PATH)")
	flags.StringArrayVar(&q.body, "body", nil,
		"extra request body field `NAME=VALUE`, VALUE in JSON, for example temperature=0")
	flags.UintSliceVar(&q.concurrency, "concurrency", nil, "closed loop: requests in flight, one stage for each value")
	flags.Float64SliceVar(&q.rate, "rate", nil, "open loop: requests per second, one stage for each value")
	flags.StringVar(&q.arrival, "arrival", "", "open loop: poisson or constant (default poisson)")
	flags.BoolVar(
		&q.conditioned,
		"conditioned",
		true,
		"open loop that ends by --requests: they take exactly requests / rate, as in vLLM's client; false: a random time",
	)
	flags.StringVar(&q.split, "split", "",
		"open loop on several agents: random or in_turn (default random for poisson)")
	flags.Uint32Var(&q.maxInFlight, "max-in-flight", 0,
		"open loop: hold requests back while this many are in flight (default: no limit)")
	flags.DurationVar(&q.stagger, "stagger", 0,
		"closed loop: spread the first requests over this time, best the time of one request; they are warm-up")
	flags.Uint32Var(&q.isl, "isl", 1000, "input sequence length in tokens")
	flags.Uint32Var(&q.osl, "osl", 100, "output sequence length in tokens; not for APIs without output, such as embeddings")
	flags.Uint64Var(&q.requests, "requests", 0, "end each stage after this many requests")
	flags.Uint64Var(&q.requestsPerConcurrency, "requests-per-concurrency", 0,
		"end each stage after this many requests for each unit of concurrency (default 10 for closed loops)")
	flags.DurationVar(&q.duration, "duration", 0, "end each stage after this time (default 60s for open loops)")
	flags.Uint64Var(&q.warmupRequests, "warmup-requests", 0,
		"warm-up: this many first requests of each stage are not measured")
	flags.DurationVar(&q.warmup, "warmup", 0, "warm-up: this first time of each stage is not measured")
	flags.Uint64Var(
		&q.seed,
		"seed",
		0,
		"seed of contents and arrivals (default: a new one for each run, so that no prompt is in the server's cache)",
	)
	settings.TypedOnly(flags, quickNames...)
}

// used reports whether any flag that makes a plan was given.
func (q *quickFlags) used(flags *pflag.FlagSet) bool {
	return slices.ContainsFunc(quickNames, flags.Changed)
}

// yaml returns the plan as text.
func (q *quickFlags) yaml(flags *pflag.FlagSet) ([]byte, error) {
	headers, headersErr := headerFields(q.headers)
	body, bodyErr := bodyFields(q.body)
	concurrency, concurrencyErr := q.slots()
	if err := errors.Join(q.wrong(flags), headersErr, bodyErr, concurrencyErr); err != nil {
		return nil, err
	}
	return draft.Quick{
		Targets: []string{strings.Join(q.targets, ",")}, Model: q.model, API: q.api,
		Whole: !q.stream, APIKey: q.apiKey,
		Headers: headers, Body: body,
		Concurrency: concurrency, Rate: q.rate, Arrival: q.arrival, Unconditioned: !q.conditioned, Split: q.split,
		MaxInFlight: q.maxInFlight, Stagger: q.stagger, ISL: q.isl, OSL: q.osl,
		Requests: q.requests, RequestsPerConcurrency: q.requestsPerConcurrency, Duration: q.duration,
		WarmupRequests: q.warmupRequests, WarmupDuration: q.warmup, Seed: cmp.Or(q.seed, 1+rand.Uint64N(999_999)),
	}.YAML(), nil
}

// wrong returns an error if a flag is missing, or does not fit the API.
func (q *quickFlags) wrong(flags *pflag.FlagSet) error {
	switch {
	case len(q.concurrency)+len(q.rate) == 0:
		return errors.New("--target needs --concurrency or --rate, for example --concurrency 1,2,4")
	case flags.Changed("osl") && !draft.HasOutput(q.api):
		return fmt.Errorf("--osl does not go with --api %s, whose answers have no tokens", q.api)
	}
	return nil
}

// slots returns the values of --concurrency in the type that plans use.
func (q *quickFlags) slots() ([]uint32, error) {
	slots := make([]uint32, len(q.concurrency))
	for i, c := range q.concurrency {
		if c > math.MaxUint32 {
			return nil, fmt.Errorf("--concurrency %d is too large: want at most 4294967295", c)
		}
		slots[i] = uint32(c)
	}
	return slots, nil
}

// headerFields parses NAME=VALUE pairs. Its errors do not repeat values, which may be secrets.
func headerFields(pairs []string) (map[string]string, error) {
	fields := map[string]string{}
	var errs []error
	for i, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			errs = append(errs, fmt.Errorf("--header number %d: want NAME=VALUE, for example X-Team=perf", i+1))
		}
		fields[name] = value
	}
	return fields, errors.Join(errs...)
}

// bodyFields parses NAME=JSON pairs. A value that is not JSON is taken as a string, as a person would expect of
// stop=END.
func bodyFields(pairs []string) (map[string]any, error) {
	fields := map[string]any{}
	var errs []error
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			errs = append(errs, fmt.Errorf("--body %q: want NAME=VALUE, VALUE in JSON, for example temperature=0",
				pair))
			continue
		}
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			if strings.ContainsAny(text, `{["`) {
				errs = append(errs, fmt.Errorf("--body %s: %s is not JSON: %w", name, strconv.Quote(text), err))
			}
			value = text
		}
		fields[name] = value
	}
	return fields, errors.Join(errs...)
}
