// Package draft writes plans for people who have none yet: from a few answers, or from command line flags. Package
// plans checks what it writes.
package draft

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/endpoint"
	"github.com/spate-load/spate/plans/secret"
)

// Quick is a plan given by command line flags: one workload, and one or two sweeps over its values. Zero values are
// left out of the plan or take Quick's own defaults, which the plan then shows.
type Quick struct {
	// Name of the plan. Default "quick".
	Name string
	// Targets under test. Each is a base URL, or several separated by commas for one target with several endpoints.
	Targets []string
	// API of the endpoints: one of APIs.
	API string
	// Model name.
	Model string
	// APIKey is a reference, env:NAME or file:PATH.
	APIKey string
	// Headers to send. Values may be references.
	Headers map[string]string
	// Body holds extra fields of each request body. ignore_eos is true unless it is given here; a nil value omits a
	// field.
	Body map[string]any
	// ISL and OSL are the lengths of input and output in tokens.
	ISL, OSL uint32
	// Concurrency lists the values of a closed loop, Rate those of an open loop. If both are given, there are two
	// loads.
	Concurrency []uint32
	Rate        []float64
	// Arrival process of the rates, poisson or constant.
	Arrival string
	// Unconditioned leaves the time that the requests take to chance. It goes with Requests.
	Unconditioned bool
	// Split of the rates over agents, random or in_turn. Empty: the default of the arrival process.
	Split string
	// Stagger spreads the first requests of a closed loop over this time. 0: they start at once.
	Stagger time.Duration
	// Requests, RequestsPerConcurrency (closed loop only) and Duration end a stage. Default: 10 requests per slot in a
	// closed loop, 60 s in an open loop.
	Requests, RequestsPerConcurrency uint64
	Duration                         time.Duration
	// WarmupRequests and WarmupDuration are left out of the results.
	WarmupRequests uint64
	WarmupDuration time.Duration
	// Seed of the plan.
	Seed uint64
}

// Defaults of a quick plan, in addition to those of any plan.
const (
	quickRequestsPerConcurrency = 10
	quickDuration               = time.Minute
)

// YAML returns the plan as a person would write it. The same Quick gives the same bytes. YAML checks nothing: Load
// reports the mistakes.
func (q Quick) YAML() []byte {
	w := &writer{}
	w.line(0, "# Made from command line flags. Save it to a file, change it, and run it with: spate run FILE")
	w.line(0, "name: %s", scalar(cmp.Or(q.Name, "quick")))
	w.line(0, "seed: %d", q.Seed)
	w.line(0, "")
	q.targets(w)
	w.line(0, "workloads:")
	w.line(1, "- random: {isl: %d, osl: %d}", q.ISL, q.OSL)
	w.line(0, "")
	w.line(0, "loads:")
	if len(q.Concurrency) > 0 || len(q.Rate) == 0 {
		q.closed(w)
	}
	if len(q.Rate) > 0 {
		q.open(w)
	}
	return w.Bytes()
}

func (q Quick) targets(w *writer) {
	w.line(0, "targets:")
	seen := make(map[string]int)
	for i, target := range q.Targets {
		var endpoints []string
		for part := range strings.SplitSeq(target, ",") {
			endpoints = append(endpoints, withoutPassword(endpoint.BaseURL(strings.TrimSpace(part))))
		}
		w.line(1, "- name: %s", scalar(targetName(seen, endpoints[0], i)))
		w.line(2, "endpoints:")
		for _, e := range endpoints {
			w.line(3, "- %s", scalar(e))
		}
		q.requests(w)
	}
	w.line(0, "")
}

// targetName returns the endpoint's host and port, made unique, or the target's number if those are not a valid name.
func targetName(seen map[string]int, endpoint string, index int) string {
	name := fmt.Sprintf("target-%d", index+1)
	if u, err := url.Parse(endpoint); err == nil && hostName(u.Host) {
		name = u.Host
	}
	if seen[name]++; seen[name] > 1 {
		return fmt.Sprintf("%s (%d)", name, seen[name])
	}
	return name
}

func hostName(host string) bool {
	usable := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '.' || r == '-' || r == ':'
	}
	const longest = 56 // Leaves room for a number.
	return host != "" && len(host) <= longest && usable(rune(host[0])) && !strings.ContainsAny(host[:1], ".-:") &&
		!strings.ContainsFunc(host, func(r rune) bool { return !usable(r) })
}

// requests writes what the requests of a target contain.
func (q Quick) requests(w *writer) {
	w.line(2, "api: %s", scalar(cmp.Or(q.API, registry.All[0].Name)))
	if q.Model != "" {
		w.line(2, "model: %s", scalar(q.Model))
	}
	if q.APIKey != "" {
		w.line(2, "api_key: %s", scalar(withoutKey(q.APIKey)))
	}
	if len(q.Headers) > 0 {
		w.line(2, "headers:")
		for _, name := range slices.Sorted(maps.Keys(q.Headers)) {
			value := q.Headers[name]
			if secret.HeaderName(name) {
				value = withoutKey(value)
			}
			w.line(3, "%s: %s", scalar(name), scalar(value))
		}
	}
	q.body(w)
}

// withoutKey and withoutPassword keep literal secrets out of a text that is printed. What they return is still a
// mistake, so that Load says what to do instead.
func withoutKey(value string) string {
	if secret.IsReference(value) {
		return value
	}
	return "(not shown)"
}

func withoutPassword(endpoint string) string {
	switch u, err := url.Parse(endpoint); {
	case err != nil && strings.Contains(endpoint, "@"):
		return withoutKey("")
	case err == nil && u.User != nil:
		return u.Redacted()
	}
	return endpoint
}

func (q Quick) body(w *writer) {
	fields := map[string]any{"ignore_eos": true}
	maps.Copy(fields, q.Body)
	maps.DeleteFunc(fields, func(_ string, value any) bool { return value == nil })
	if len(fields) == 0 {
		return
	}
	w.line(2, "body:")
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		note := ""
		if name == "ignore_eos" && fields[name] == true {
			note = "  # Generate osl tokens in any case, so that every answer has the requested length."
		}
		value := fields[name]
		if secret.FieldName(name) {
			value = withoutKey("")
		}
		w.line(3, "%s: %s%s", scalar(name), jsonText(value), note)
	}
}

func (q Quick) closed(w *writer) {
	w.line(1, "- concurrency: [%s]",
		list(q.Concurrency, func(n uint32) string { return strconv.FormatUint(uint64(n), 10) }))
	per := q.RequestsPerConcurrency
	if q.Requests == 0 && per == 0 && q.Duration == 0 {
		per = quickRequestsPerConcurrency
	}
	if per > 0 {
		w.line(2, "requests_per_concurrency: %d", per)
	}
	if q.Stagger != 0 {
		w.line(2, "stagger: %s", durationWords(q.Stagger))
	}
	q.ends(w, q.Duration)
}

func (q Quick) open(w *writer) {
	w.line(1, "- rate: [%s]", list(q.Rate, func(r float64) string { return strconv.FormatFloat(r, 'f', -1, 64) }))
	w.line(2, "arrival: %s", scalar(cmp.Or(q.Arrival, defaults.Arrival)))
	if q.Unconditioned {
		w.line(2, "conditioned: false")
	}
	if q.Split != "" {
		w.line(2, "split: %s", scalar(q.Split))
	}
	duration := q.Duration
	if q.Requests == 0 && duration == 0 {
		duration = quickDuration
	}
	q.ends(w, duration)
}

// ends writes the ends that both kinds of loops have, and the warm-up.
func (q Quick) ends(w *writer, duration time.Duration) {
	if q.Requests > 0 {
		w.line(2, "requests: %d", q.Requests)
	}
	if duration != 0 {
		w.line(2, "duration: %s", durationWords(duration))
	}
	if q.WarmupRequests == 0 && q.WarmupDuration == 0 {
		return
	}
	w.line(2, "warmup:")
	if q.WarmupRequests > 0 {
		w.line(3, "requests: %d", q.WarmupRequests)
	}
	if q.WarmupDuration != 0 {
		w.line(3, "duration: %s", durationWords(q.WarmupDuration))
	}
}

// durationWords formats a duration as 1m rather than 1m0s.
func durationWords(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-len("0s")]
		}
	}
	return text
}

// writer builds indented lines.
type writer struct{ bytes.Buffer }

func (w *writer) line(indent int, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if text != "" {
		w.WriteString(strings.Repeat("  ", indent))
	}
	w.WriteString(text + "\n")
}

func list[T any](values []T, word func(T) string) string {
	var words []string
	for _, v := range slices.All(values) {
		words = append(words, word(v))
	}
	return strings.Join(words, ", ")
}

// scalar formats text so that YAML reads the same text: bare if possible, otherwise in quotes.
func scalar(text string) string {
	var node yaml.Node
	bare := text != "" && !strings.ContainsAny(text, "#\n\r,[]{}\"'") && text == strings.TrimSpace(text)
	if bare && yaml.Unmarshal([]byte(text), &node) == nil && len(node.Content) == 1 {
		if only := node.Content[0]; only.Kind == yaml.ScalarNode && only.Tag == "!!str" && only.Value == text &&
			only.Anchor == "" {
			return text
		}
	}
	return jsonText(text)
}

// jsonText formats a value as JSON, which is also YAML. A value that JSON cannot hold is formatted as text; Load then
// reports it.
func jsonText(value any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return scalar(fmt.Sprint(value))
	}
	return strings.TrimSpace(b.String())
}
