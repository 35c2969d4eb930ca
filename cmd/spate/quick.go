package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/spate-load/spate/plans"
)

// quickFlags make a plan for the common case, without a file.
type quickFlags struct {
	targets                []string
	model, api, apiKey     string
	headers, body          []string
	concurrency            []uint
	rate                   []float64
	arrival                string
	isl, osl               uint32
	requests               uint64
	requestsPerConcurrency uint64
	duration               time.Duration
	warmupRequests         uint64
	warmup                 time.Duration
	seed                   uint64
}

// names are the flags that make a plan.
var quickNames = []string{
	"target", "model", "api", "api-key", "header", "body", "concurrency", "rate", "arrival", "isl", "osl", "requests",
	"requests-per-concurrency", "duration", "warmup", "warmup-requests", "seed",
}

func (q *quickFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&q.targets, "target", nil, "base `URL` of the deployment under test; several are endpoints of one deployment")
	flags.StringVar(&q.model, "model", "", "model name to ask for")
	flags.StringVar(&q.api, "api", "", "API of the endpoints: chat or completions (default chat)")
	flags.StringVar(&q.apiKey, "api-key", "", "where the API key is: env:NAME or file:PATH")
	flags.StringArrayVar(&q.headers, "header", nil, "extra request header `NAME=VALUE` (VALUE may be env:NAME or file:PATH)")
	flags.StringArrayVar(&q.body, "body", nil, "extra request body field `NAME=VALUE`, VALUE in JSON, for example temperature=0")
	flags.UintSliceVar(&q.concurrency, "concurrency", nil, "closed loop: requests in flight, one stage for each value")
	flags.Float64SliceVar(&q.rate, "rate", nil, "open loop: requests per second, one stage for each value")
	flags.StringVar(&q.arrival, "arrival", "", "open loop: poisson or constant (default poisson)")
	flags.Uint32Var(&q.isl, "isl", 1000, "input sequence length in tokens")
	flags.Uint32Var(&q.osl, "osl", 100, "output sequence length in tokens")
	flags.Uint64Var(&q.requests, "requests", 0, "end each stage after this many requests")
	flags.Uint64Var(&q.requestsPerConcurrency, "requests-per-concurrency", 0, "end each stage after this many requests for each unit of concurrency (default 10 for closed loops)")
	flags.DurationVar(&q.duration, "duration", 0, "end each stage after this time (default 60s for open loops)")
	flags.Uint64Var(&q.warmupRequests, "warmup-requests", 0, "leave the first so many requests of each stage out of its results")
	flags.DurationVar(&q.warmup, "warmup", 0, "leave this first time of each stage out of its results")
	flags.Uint64Var(&q.seed, "seed", 1, "seed of contents and arrivals")
}

// used says whether any flag that makes a plan was given.
func (q *quickFlags) used(flags *pflag.FlagSet) bool {
	for _, name := range quickNames {
		if flags.Changed(name) {
			return true
		}
	}
	return false
}

// yaml returns the plan as text.
func (q *quickFlags) yaml() ([]byte, error) {
	headers := map[string]string{}
	for _, h := range q.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok {
			return nil, fmt.Errorf("--header %q: want NAME=VALUE", h)
		}
		headers[name] = value
	}
	body, err := bodyFields(q.body)
	if err != nil {
		return nil, err
	}
	concurrency := make([]uint32, len(q.concurrency))
	for i, c := range q.concurrency {
		if uint(uint32(c)) != c {
			return nil, fmt.Errorf("--concurrency %d is too large", c)
		}
		concurrency[i] = uint32(c)
	}
	return plans.Quick{
		Targets: []string{strings.Join(q.targets, ",")}, Model: q.model, API: q.api, APIKey: q.apiKey, Headers: headers, Body: body,
		Concurrency: concurrency, Rate: q.rate, Arrival: q.arrival, ISL: q.isl, OSL: q.osl,
		Requests: q.requests, RequestsPerConcurrency: q.requestsPerConcurrency, Duration: q.duration,
		WarmupRequests: q.warmupRequests, WarmupDuration: q.warmup, Seed: q.seed,
	}.YAML(), nil
}

// bodyFields parses NAME=JSON pairs. A value that is no JSON is taken as a string, as a person would expect of stop=END.
func bodyFields(pairs []string) (map[string]any, error) {
	fields := map[string]any{}
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--body %q: want NAME=VALUE, VALUE in JSON", pair)
		}
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			if strings.ContainsAny(text, `{["`) {
				return nil, fmt.Errorf("--body %s: %s is no JSON: %w", name, strconv.Quote(text), err)
			}
			value = text
		}
		fields[name] = value
	}
	return fields, nil
}
