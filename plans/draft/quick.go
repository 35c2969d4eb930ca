// Package draft writes plans for people who have none yet: from a few answers, or from command line flags. Package
// plans checks what it writes.
package draft

import (
	"bytes"
	"cmp"
	_ "embed" // for the template
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"text/template"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/naming"
	"github.com/spate-load/spate/plans/secret"
)

// Quick is a plan given by command line flags: one workload, and one or two sweeps over its values. Zero values are
// left out of the plan or take Quick's own defaults, which the plan then shows.
type Quick struct {
	// Name of the plan. Default "quick".
	Name string
	// Targets under test. Each is a base URL, or several separated by commas for one target with several endpoints.
	Targets []string `flag:"target" help:"base <URL>, or host:port, of the deployment under test; several are endpoints of one deployment"`
	Model   string   `flag:"model" help:"model name to ask for (default: the only one that the server lists)"`
	// API of the endpoints: one of APIs.
	API string `flag:"api" words:"APIS" help:"API of the endpoints: APIS (default chat)"`
	// Whole asks for answers in one piece instead of streams.
	Whole bool
	// APIKey is a reference, env:NAME or file:PATH.
	APIKey string `flag:"api-key" help:"where the API key is: env:NAME or file:PATH"`
	// Headers to send. Values may be references.
	Headers map[string]string
	// Body holds extra fields of each request body. A nil value omits a field.
	Body map[string]any
	// Concurrency lists the values of a closed loop, Rate those of an open loop. If both are given, there are two
	// loads. Arrival, MaxInFlight and Stagger may be zero.
	Concurrency []uint        `flag:"concurrency" help:"closed loop: requests in flight, one stage for each value"`
	Rate        []float64     `flag:"rate" help:"open loop: requests per second, one stage for each value"`
	Arrival     string        `rare:"yes" flag:"arrival" words:"poisson, constant" help:"open loop: poisson or constant (default poisson)"`
	MaxInFlight uint32        `rare:"yes" flag:"max-in-flight" help:"open loop: hold requests back while this many are in flight (default: no limit)"`
	Stagger     time.Duration `rare:"yes" flag:"stagger" help:"closed loop: spread the first requests over this time, best the time of one request; they are warm-up"`
	// ISL and OSL are the lengths of input and output in tokens. An API without output has no OSL.
	ISL uint32 `flag:"isl" default:"1000" help:"input sequence length in tokens"`
	OSL uint32 `flag:"osl" default:"100" help:"output sequence length in tokens; not for APIs without output, such as embeddings"`
	// Requests, RequestsPerConcurrency (closed loop only) and Duration end a stage. Default: 10 requests per slot in a
	// closed loop, 60 s in an open loop.
	Requests               uint64        `flag:"requests" help:"end each stage after this many requests"`
	RequestsPerConcurrency uint64        `rare:"yes" flag:"requests-per-concurrency" help:"end each stage after this many requests for each unit of concurrency (default 10 for closed loops)"`
	Duration               time.Duration `flag:"duration" help:"end each stage after this time (default 60s for open loops)"`
	// WarmupRequests and WarmupDuration are left out of the results.
	WarmupRequests uint64        `rare:"yes" flag:"warmup-requests" help:"warm-up: this many first requests of each stage are not measured"`
	WarmupDuration time.Duration `rare:"yes" flag:"warmup" help:"warm-up: this first time of each stage is not measured"`
	Seed           uint64        `rare:"yes" flag:"seed" help:"send exactly the prompts of this seed (default: the same requests in each run, but for their first words, so that no prompt is in the server's cache)"`
}

// Defaults of a quick plan, in addition to those of any plan.
const (
	quickRequestsPerConcurrency = 10
	quickDuration               = time.Minute
)

//go:embed quick.yaml.tmpl
var quickTemplate string

// quickPage is the template of a quick plan.
var quickPage = template.Must(template.New("").Funcs(functions).Funcs(template.FuncMap{
	"header": headerValue, "field": fieldValue,
}).Parse(quickTemplate))

// quickTarget is one target of a quick plan.
type quickTarget struct {
	Name      string
	Endpoints []string
}

// YAML returns the plan as a person would write it. The same Quick gives the same bytes. YAML checks nothing: Load
// reports the mistakes.
func (q Quick) YAML() []byte {
	q.Name, q.API = cmp.Or(q.Name, "quick"), cmp.Or(q.API, registry.All[0].Name)
	q.Arrival, q.Body = cmp.Or(q.Arrival, defaults.Arrival), maps.Clone(q.Body)
	maps.DeleteFunc(q.Body, func(_ string, value any) bool { return value == nil })
	var b bytes.Buffer
	err := quickPage.Execute(&b, struct {
		Quick
		Targets []quickTarget
		Loads   []Quick
	}{q, q.targets(), q.loads()})
	if err != nil {
		panic("draft: the template does not fit: " + err.Error())
	}
	return b.Bytes()
}

func (q Quick) targets() (targets []quickTarget) {
	seen := make(map[string]int)
	for i, target := range q.Targets {
		var endpoints []string
		for part := range strings.SplitSeq(target, ",") {
			endpoints = append(endpoints, withoutPassword(naming.BaseURL(strings.TrimSpace(part))))
		}
		targets = append(targets, quickTarget{targetName(seen, endpoints[0], i), endpoints})
	}
	return targets
}

// loads returns the plan for each of its loads: without Rate for a closed loop.
func (q Quick) loads() (loads []Quick) {
	closed, open := q, q
	closed.Rate = nil
	if q.Requests == 0 && q.Duration == 0 {
		open.Duration = quickDuration
		closed.RequestsPerConcurrency = cmp.Or(q.RequestsPerConcurrency, quickRequestsPerConcurrency)
	}
	if len(q.Concurrency) > 0 || len(q.Rate) == 0 {
		loads = append(loads, closed)
	}
	if len(q.Rate) > 0 {
		loads = append(loads, open)
	}
	return loads
}

// Output reports whether answers have output tokens.
func (q Quick) Output() bool { return HasOutput(q.API) }

// headerValue returns the value of a header as it may be printed.
func headerValue(name, value string) string {
	if secret.HeaderName(name) {
		return withoutKey(value)
	}
	return value
}

// fieldValue returns the value of a body field as it may be printed.
func fieldValue(name string, value any) string {
	if secret.FieldName(name) {
		return jsonText(withoutKey(""))
	}
	return jsonText(value)
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
