package draft

import (
	"bytes"
	"cmp"
	_ "embed" // for the template
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"

	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/workload/dataset"
)

// Answers are what a person has to say for a first plan. Zero values take defaults. The plan then shows the defaults,
// with comments about the alternatives.
type Answers struct {
	// Name of the plan. Default "my-plan".
	Name string `flag:"name" help:"name of the plan (default my-plan)"`
	// Endpoints under test. Default: the built-in simulator.
	Endpoints []string `flag:"endpoint" help:"base <URL> of an endpoint under test (default: the built-in simulator)"`
	// Model name. Default "your-model" if there are endpoints.
	Model string `flag:"model" help:"model name to ask for"`
	// API of the endpoints. Default chat.
	API string `flag:"api" words:"APIS" help:"API of the endpoints: APIS (default chat)"`
	// APIKey is a reference, env:NAME or file:PATH.
	APIKey string `flag:"api-key" help:"where the API key is: env:NAME or file:PATH"`
	// Workload is one of Workloads. Default "random".
	Workload string `flag:"workload" help:"kind of workload, see above (default random)"`
	// File of the workload, if its kind needs one.
	File string `flag:"file" help:"<file> of the workload"`
	// ISL and OSL are the lengths of input and output in tokens. Default 1000 and 100.
	ISL uint32 `flag:"isl" help:"input sequence length in tokens (default 1000)"`
	OSL uint32 `flag:"osl" help:"output sequence length in tokens (default 100)"`
	// Load is one of Loads. Default "concurrency".
	Load string `flag:"load" help:"kind of load, see above (default concurrency)"`
	// Values of the load: concurrencies, rates, the bounds of a search or a ramp, or the speed of a replay. The default
	// depends on the load.
	Values []float64 `flag:"values" help:"<values> of the load: concurrencies, rates, or the bounds of a search or ramp"`
	// TTFT and TPOT are the SLO of a request. Default: none; for a search 500 ms and 50 ms.
	TTFT time.Duration `flag:"ttft" help:"longest TTFT that a request may have"`
	TPOT time.Duration `flag:"tpot" help:"longest TPOT that a request may have"`
}

// workload is a kind of workload. file says what its file is, if it needs one.
type workload struct{ name, help, file string }

// workloads returns the kinds of workloads, the most common first.
func workloads() []workload {
	kinds := []workload{
		{"random", "random tokens of exact length", ""},
		{"sessions", "conversations of several turns with history", ""},
	}
	return append(kinds, lists.Each(dataset.Sources, func(s dataset.Source) workload {
		return workload{s.Name, s.Help, s.Example}
	})...)
}

// loads are the kinds of loads, the most common first, with the default values.
var loads = []struct {
	name, help string
	usual      []float64
}{
	{"concurrency", "closed loop: so many requests in flight", []float64{1, 2, 4, 8, 16, 32, 64}},
	{"rate", "open loop: so many requests per second", []float64{1, 2, 4, 8}},
	{"search", "the highest rate that keeps the SLO", []float64{1, 1000}},
	{"sweep", "rates between one request at a time and a saturated server", []float64{8}},
	{"ramp", "a rate that climbs and then holds", []float64{1, 20}},
	{"replay", "the times of a trace", []float64{1}},
}

// Workloads returns the kinds of workloads that a plan can have and a description of each, the most common first.
func Workloads() (names, help []string) {
	for _, k := range workloads() {
		names, help = append(names, k.name), append(help, k.help)
	}
	return names, help
}

// Loads returns the kinds of loads that a plan can have and a description of each, the most common first.
func Loads() (names, help []string) {
	for _, k := range loads {
		names, help = append(names, k.name), append(help, k.help)
	}
	return names, help
}

// NeedsFile reports whether a kind of workload takes its requests from a file.
func NeedsFile(workload string) bool { return fileForm(workload) != "" }

func fileForm(kind string) string {
	return lists.Find(workloads(), func(w workload) bool { return w.name == kind }).file
}

//go:embed new.yaml.tmpl
var newTemplate string

// page is the template of a plan. A tab separates a line from its comment.
var page = template.Must(template.New("").Funcs(functions).Parse(newTemplate))

// functions are those of templates.
var functions = template.FuncMap{
	"yaml": scalar, "reference": withoutKey, "endpoint": func(e string) string { return scalar(withoutPassword(e)) },
	"numbers": numbers, "duration": words.Duration, "apis": func() string { return strings.Join(registry.Names(), ", ") },
}

// YAML returns the plan as a person would write it, with comments. It returns an error if the kind of workload or load
// is unknown. plans.Load checks the plan itself.
func (a Answers) YAML() ([]byte, error) {
	a = a.filled()
	names, _ := Workloads()
	if err := oneOf("workload", a.Workload, names); err != nil {
		return nil, err
	}
	names, _ = Loads()
	if err := oneOf("load", a.Load, names); err != nil {
		return nil, err
	}
	if len(a.Values) == 0 {
		a.Values = loads[slices.Index(names, a.Load)].usual
	}
	var b bytes.Buffer
	err := page.Execute(&b, struct {
		Answers
		First, Last, FileForm, SLO string
		Prefix                     uint32
	}{a, number(a.Values[0]), number(a.Values[len(a.Values)-1]), fileForm(a.Workload), a.slo(), min(50, a.ISL)})
	if err != nil {
		return nil, fmt.Errorf("the plan cannot be written: %w", err)
	}
	return aligned(b.String()), nil
}

func oneOf(what, name string, names []string) error {
	if !slices.Contains(names, name) {
		return fmt.Errorf("no %s is called %q: want one of %s", what, name, strings.Join(names, ", "))
	}
	return nil
}

// HasOutput reports whether the answers of an API have output tokens. Those of the default API, "", and of an unknown
// one have them.
func HasOutput(api string) bool {
	of, known := registry.Find(api)
	return !known || !of.NoOutput
}

func (a Answers) filled() Answers {
	a.Name, a.API = cmp.Or(a.Name, "my-plan"), cmp.Or(a.API, registry.All[0].Name)
	a.Workload, a.Load = cmp.Or(a.Workload, "random"), cmp.Or(a.Load, "concurrency")
	a.ISL = cmp.Or(a.ISL, 1000)
	if HasOutput(a.API) || a.Workload != "random" { // answers may have no tokens
		a.OSL = cmp.Or(a.OSL, 100)
	}
	if a.Load == "search" && a.TTFT == 0 && a.TPOT == 0 {
		a.TTFT, a.TPOT = 500*time.Millisecond, 50*time.Millisecond
	}
	if len(a.Endpoints) > 0 {
		a.Model = cmp.Or(a.Model, "your-model")
	}
	return a
}

// slo returns the fields of the SLO, or "" if there is none.
func (a Answers) slo() string {
	var parts []string
	if a.TTFT != 0 {
		parts = append(parts, "ttft: "+words.Duration(a.TTFT))
	}
	if a.TPOT != 0 {
		parts = append(parts, "tpot: "+words.Duration(a.TPOT))
	}
	return strings.Join(parts, ", ")
}

// aligned puts the comments after lines at one column where the lines are short enough. No value has the separator: a
// text with # is in quotes, in which a tab is written as \t.
func aligned(text string) []byte {
	const column = 40
	var b bytes.Buffer
	for line := range strings.Lines(text) {
		if i := strings.LastIndex(line, "\t# "); i >= 0 {
			line = line[:i] + strings.Repeat(" ", max(1, column-utf8.RuneCountInString(line[:i]))) + line[i+1:]
		}
		b.WriteString(line)
	}
	return b.Bytes()
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func numbers(values []float64) string { return strings.Join(lists.Each(values, number), ", ") }
