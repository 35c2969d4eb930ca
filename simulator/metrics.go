package simulator

import (
	_ "embed" // the names of metrics
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/simulator/engine"
)

// gauges are the values of an engine that /metrics shows beside its latencies.
type gauges [6]atomic.Int64

const (
	gaugeRunning = iota
	gaugeWaiting
	gaugePrompt   // tokens of sequences whose prefill has ended
	gaugeLookedUp // those of engines with a prefix cache
	gaugeCached   // those that the cache had
	gaugeOutput
)

// family is a metric of the page.
type family struct {
	kind, name, help string
	bounds           []float64 // upper bounds of a histogram's buckets, in seconds
}

//go:embed metrics.txt
var metricsText string

// families are vLLM's metrics: those of gauges, then those of latencies.
var families = func() (all []family) {
	for line := range strings.Lines(metricsText) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if words[0] == "#" {
			continue
		}
		f := family{kind: words[0], name: words[1], help: words[3]}
		if err := json.Unmarshal([]byte("["+strings.Trim(words[2], "-")+"]"), &f.bounds); err != nil {
			panic(err)
		}
		all = append(all, f)
	}
	return all
}()

// metrics answers with the engines' state under vLLM's names, in Prometheus's text format.
func (ep *endpoint) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	page := exposition{model: strconv.Quote(ep.config.ServedName())}
	for g, f := range families[:len(gauges{})] {
		page.family(f.name, f.kind, f.help)
		for i, l := range ep.engines {
			page.sample("", fmt.Sprintf(`engine="%d"`, i), l.gauges[g].Load())
		}
	}
	page.family("vllm:request_success_total", "counter", "Count of processed requests by how they ended.")
	page.sample("", `finished_reason="stop"`, ep.ends.stop.Load())
	page.sample("", `finished_reason="length"`, ep.ends.length.Load())
	page.sample("", `finished_reason="abort"`, ep.ends.abort.Load())
	page.latencies(ep.engines)
	_, _ = w.Write(page.text)
}

// exposition is a metrics page that is being written.
type exposition struct {
	model  string // quoted
	metric string
	text   []byte
}

// family starts a metric.
func (x *exposition) family(metric, kind, help string) {
	x.metric = metric
	x.text = fmt.Appendf(x.text, "# HELP %s %s\n# TYPE %s %s\n", metric, help, metric, kind)
}

// sample writes a value of the metric. label precedes that of the model.
func (x *exposition) sample(suffix, label string, value any) {
	x.text = fmt.Appendf(x.text, "%s%s{%s,model_name=%s} %v\n", x.metric, suffix, label, x.model, value)
}

// latency is a histogram of times in vLLM's buckets.
type latency struct {
	bounds []time.Duration
	counts []uint64 // one more than bounds
	sum    time.Duration
}

func newLatency(seconds []float64) latency {
	return latency{counts: make([]uint64, len(seconds)+1),
		bounds: lists.Each(seconds, func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) })}
}

// observe adds a time. It searches from the first bucket, because most times are in the first ones.
func (l *latency) observe(d time.Duration) {
	l.sum += d
	i := 0
	for i < len(l.bounds) && d > l.bounds[i] {
		i++
	}
	l.counts[i]++
}

// latencies are an engine's own account of its requests, by the model's clock. Late sending does not show in them. They
// are in the order of the histograms among families.
type latencies [7]latency

// The histograms by what they are of.
const (
	firstToken = iota
	interToken
	perToken
	request
	queueing
	prefilling
	decoding
)

func newLatencies() (l latencies) {
	for i, f := range families[len(gauges{}):] {
		l[i] = newLatency(f.bounds)
	}
	return l
}

func (l latencies) clone() latencies {
	for i := range l {
		l[i].counts = slices.Clone(l[i].counts)
	}
	return l
}

// take counts a token, and with the last token its request.
func (l *latencies) take(e *engine.Emission) {
	s := e.Seq
	if e.Produced == 1 {
		s.First = e.At
		l[firstToken].observe(e.At.Sub(s.Arrived))
	} else {
		l[interToken].observe(e.At.Sub(s.Latest))
	}
	s.Latest = e.At
	if e.Produced < s.Output {
		return
	}
	decode := e.At.Sub(s.First)
	l[perToken].observe(decode / time.Duration(max(1, s.Output-1))) // 0 for a single token, as in vLLM
	l[request].observe(e.At.Sub(s.Arrived))
	l[queueing].observe(s.Began.Sub(s.Queued))
	l[prefilling].observe(s.First.Sub(s.Began))
	l[decoding].observe(decode)
}

// latencies writes the engines' histograms.
func (x *exposition) latencies(engines []*loop) {
	copies := make([]latencies, len(engines))
	for i, l := range engines {
		l.accounts.Lock()
		copies[i] = l.latencies.clone()
		l.accounts.Unlock()
	}
	for i, f := range families[len(gauges{}):] {
		x.family(f.name, f.kind, f.help)
		for engine := range copies {
			x.latency(engine, &copies[engine][i])
		}
	}
}

func (x *exposition) latency(engine int, l *latency) {
	label, count := fmt.Sprintf(`engine="%d"`, engine), uint64(0)
	for i, n := range l.counts {
		count += n
		bound := "+Inf"
		if i < len(l.bounds) {
			bound = prometheusFloat(l.bounds[i].Seconds())
		}
		x.sample("_bucket", fmt.Sprintf(`%s,le=%q`, label, bound), count)
	}
	x.sample("_count", label, count)
	x.sample("_sum", label, prometheusFloat(l.sum.Seconds()))
}

// prometheusFloat formats a number as Prometheus's Python client does: 1.0, not 1.
func prometheusFloat(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if v == float64(int64(v)) {
		s += ".0"
	}
	return s
}
