package servermetrics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// exporters returns a target with one server and a number of exporters of GPU metrics.
func exporters(n int) *spatev1.Target {
	t := watchedTarget(1)
	for i := range n {
		t.ServerMetrics.GpuUrls = append(t.ServerMetrics.GpuUrls, fmt.Sprintf("http://g%d:9400/metrics", i))
	}
	return t
}

// gpuSeries is a series of an exporter, with a value for each window.
type gpuSeries struct {
	source       uint32
	name, labels string
	value        func(window uint32) float64
}

// constant returns a series' values that never change.
func constant(v float64) func(uint32) float64 { return func(uint32) float64 { return v } }

// read returns metrics with the readings of windows 0 to last.
func read(last uint32, exporters int, all ...gpuSeries) *Metrics {
	v := &Metrics{}
	for w := range last + 1 {
		s := &spatev1.Snapshot{Window: w}
		for _, g := range all {
			s.ServerSamples = append(s.ServerSamples, &spatev1.ServerSample{Source: g.source, Name: g.name,
				Labels: g.labels, Value: g.value(w)})
		}
		for i := range exporters {
			s.ServerSamples = append(s.ServerSamples, &spatev1.ServerSample{Source: uint32(i) + 1, Name: "up", Value: 1})
		}
		v.Add(s)
	}
	return v
}

// text formats a number that may be missing.
func text(v *float64) string {
	if v == nil {
		return "n/a"
	}
	return fmt.Sprintf("%.4g", *v)
}

// summary returns the result in a line for the sum, and one for each GPU and each note.
func (r *GPUResult) summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s W, %s J, %s J a token\n", text(r.PowerW), text(r.EnergyJ), text(r.JoulesPerOutputToken))
	for _, g := range r.Devices {
		fmt.Fprintf(&b, "%s %s %s /%d: %s W by %q, at most %s, busy %s, SMs %s, tensor %s, %s MiB, %s MHz, throttled %s\n",
			g.Host, g.Number, g.UUID, g.Instances, text(g.PowerW), g.PowerFrom, text(g.MaxPowerW), text(g.Busy),
			text(g.SMActive), text(g.TensorActive), text(g.MemoryMiB), text(g.ClockMHz), text(g.Throttled))
	}
	for _, n := range r.Notes {
		b.WriteString(strings.Replace(n, oldValues, "OLD", 1) + "\n")
	}
	return b.String()
}

const (
	gpu0 = `Hostname="n1",UUID="GPU-0",gpu="0",modelName="NVIDIA H20"`
	gpu1 = `Hostname="n1",UUID="GPU-1",gpu="1",modelName="NVIDIA H20"`
)

// TestGPUs gives exporters' readings as dcgm-exporter and AMD's exporter make them, with what has gone wrong with them
// elsewhere, and compares with what a person would work out.
func TestGPUs(t *testing.T) {
	joules := func(watts float64) func(uint32) float64 { // in mJ, from a large count
		return func(w uint32) float64 { return 7e11 + 1000*watts*float64(w) }
	}
	slow := func(watts float64, interval uint32) func(uint32) float64 {
		return func(w uint32) float64 { return joules(watts)(w - w%interval) }
	}
	const power, joule = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
	for name, c := range map[string]struct {
		exporters int
		gpus      uint32
		last      uint32
		series    []gpuSeries
		want      string
	}{
		"power is the growth of energy": {1, 2, 60, []gpuSeries{
			{1, joule, gpu0, joules(300)}, {1, power, gpu0, constant(301)}, {1, joule, gpu1, joules(200)},
			{1, "DCGM_FI_DEV_GPU_UTIL", gpu0, constant(97)}, {1, "DCGM_FI_PROF_SM_ACTIVE", gpu0, constant(0.5)},
			{1, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", gpu0, constant(0.25)}, {1, "DCGM_FI_DEV_FB_USED", gpu0, constant(80000)},
			{1, "DCGM_FI_DEV_SM_CLOCK", gpu0, constant(1980)},
			{1, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", gpu0, func(w uint32) float64 { return []float64{0, 1, 4, 0x20}[w%4] }},
		}, `500 W, 3e+04 J, 30 J a token
n1 0 GPU-0 /0: 300 W by "energy", at most 301, busy 0.97, SMs 0.5, tensor 0.25, 8e+04 MiB, 1980 MHz, throttled 0.4918
n1 1 GPU-1 /0: 200 W by "energy", at most n/a, busy n/a, SMs n/a, tensor n/a, n/a MiB, n/a MHz, throttled n/a
`},
		"an exporter that asks its GPUs each 30 s": {1, 1, 120, []gpuSeries{
			{1, joule, gpu0, slow(300, 30)}, {1, power, gpu0, constant(250)},
		}, `300 W, 1.8e+04 J, 18 J a token
n1 0 GPU-0 /0: 300 W by "energy", at most 250, busy n/a, SMs n/a, tensor n/a, n/a MiB, n/a MHz, throttled n/a
http://g0:9400/metrics has new values every 30 s only: OLD.
`},
		"a stage shorter than the interval": {1, 1, 20, []gpuSeries{
			{1, joule, gpu0, slow(300, 30)}, {1, power, gpu0, constant(90)},
		}, `90 W, 5400 J, 5.4 J a token
n1 0 GPU-0 /0: 90 W by "readings", at most 90, busy n/a, SMs n/a, tensor n/a, n/a MiB, n/a MHz, throttled n/a
The values of http://g0:9400/metrics changed 0 times in 21 readings: OLD.
`},
		"instances of one GPU repeat its power": {1, 1, 20, []gpuSeries{
			{1, joule, gpu0 + `,GPU_I_ID="3"`, joules(100)}, {1, joule, gpu0 + `,GPU_I_ID="4"`, joules(100)},
			{1, "DCGM_FI_DEV_FB_USED", gpu0 + `,GPU_I_ID="3"`, constant(1000)},
			{1, "DCGM_FI_DEV_FB_USED", gpu0 + `,GPU_I_ID="4"`, constant(500)},
			{1, "DCGM_FI_PROF_SM_ACTIVE", gpu0 + `,GPU_I_ID="4"`, constant(0.5)},
		}, `100 W, 6000 J, 6 J a token
n1 0 GPU-0 /2: 100 W by "energy", at most n/a, busy n/a, SMs n/a, tensor n/a, 1500 MiB, n/a MHz, throttled n/a
`},
		"two containers use a GPU, and two exporters report it": {2, 1, 20, []gpuSeries{
			{1, joule, gpu0 + `,pod="a"`, joules(100)}, {1, joule, gpu0 + `,pod="b"`, joules(100)},
			{2, joule, gpu0, joules(100)},
		}, `100 W, 6000 J, 6 J a token
n1 0 GPU-0 /0: 100 W by "energy", at most n/a, busy n/a, SMs n/a, tensor n/a, n/a MiB, n/a MHz, throttled n/a
`},
		"values that mean: not known": {1, 0, 20, []gpuSeries{
			{1, power, gpu0, constant(140737488355328)}, {1, joule, gpu1, joules(100)},
			{1, "DCGM_FI_DEV_FB_USED", gpu0, constant(9223372036854775794)},
		}, `n/a W, n/a J, n/a J a token
n1 0 GPU-0 /0: n/a W by "", at most n/a, busy n/a, SMs n/a, tensor n/a, n/a MiB, n/a MHz, throttled n/a
n1 1 GPU-1 /0: 100 W by "energy", at most n/a, busy n/a, SMs n/a, tensor n/a, n/a MiB, n/a MHz, throttled n/a
The power of 1 of 2 GPUs is not known, so there is no sum.
`},
		"GPUs of others beside the target's": {1, 1, 20, []gpuSeries{
			{1, joule, gpu0, joules(100)}, {1, joule, gpu1, joules(100)},
		}, `200 W, 1.2e+04 J, n/a J a token
n1 0 GPU-0 /0: 100 W by "energy", at most n/a, busy n/a, SMs n/a, tensor n/a, n/a MiB, n/a MHz, throttled n/a
n1 1 GPU-1 /0: 100 W by "energy", at most n/a, busy n/a, SMs n/a, tensor n/a, n/a MiB, n/a MHz, throttled n/a
The target has gpus: 1, and the exporters report 2: the energy is that of other work, too.
`},
		"AMD": {1, 0, 20, []gpuSeries{
			{1, "amd_gpu_energy_consumed", `card_model="MI300X",gpu_id="10",hostname="m",serial_number="S"`,
				func(w uint32) float64 { return 1.4e17 + 7e8*float64(w) }},
			{1, "amd_gpu_package_power", `card_model="MI300X",gpu_id="10",hostname="m",serial_number="S"`, constant(750)},
			{1, "gpu_gfx_activity", `card_model="MI300X",gpu_id="10",hostname="m",serial_number="S"`, constant(50)},
		}, `700 W, 4.2e+04 J, 42 J a token
m 10 S /0: 700 W by "energy", at most 750, busy 0.5, SMs n/a, tensor n/a, n/a MiB, n/a MHz, throttled n/a
`},
		"a driver that was loaded again": {1, 0, 30, []gpuSeries{
			{1, joule, gpu0, func(w uint32) float64 { return 1000 * 300 * float64((w+15)%16) }},
		}, `300 W, 1.8e+04 J, 18 J a token
n1 0 GPU-0 /0: 300 W by "energy", at most n/a, busy n/a, SMs n/a, tensor n/a, n/a MiB, n/a MHz, throttled n/a
`},
		"nothing": {1, 0, 20, nil, `n/a W, n/a J, n/a J a token
No exporter reported a GPU.
`},
	} {
		t.Run(name, func(t *testing.T) {
			target := exporters(c.exporters)
			target.Gpus = c.gpus
			v := read(c.last, c.exporters, c.series...)
			got := v.GPUs(target, 0, c.last, Work{Span: new(60.0), OutputTokens: 1000})
			if diff := cmp.Diff(c.want, got.summary()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if servers := v.Results(target, 0, c.last); len(servers) != 1 || len(servers[0].Metrics) != 0 {
				t.Errorf("exporters are among the servers: %+v", servers)
			}
		})
	}
}

// TestNoExporters checks that a plan without exporters has no result of GPUs.
func TestNoExporters(t *testing.T) {
	if r := (&Metrics{}).GPUs(watchedTarget(1), 0, 1, Work{}); r != nil {
		t.Errorf("%+v", r)
	}
}

// FuzzIdentify gives any labels: nothing panics, and no GPU is without a name.
func FuzzIdentify(f *testing.F) {
	f.Add(gpu0)
	f.Add(`UUID="`)
	f.Add("} 1\nx{")
	f.Fuzz(func(t *testing.T, labels string) {
		if id, ok := identify(labels); ok && id.uuid == "" {
			t.Errorf("%q: %+v", labels, id)
		}
	})
}
