package servermetrics

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans/naming"
	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// GPUResult is what exporters of GPU metrics reported for the measured part of a stage.
type GPUResult struct {
	// Exporters, in the order of the plan.
	Exporters []GPUExporter `json:"exporters"`
	// GPUs, sorted by host and number. A GPU that several exporters report is there once.
	Devices []GPU `json:"devices"`
	// Mean power of all GPUs together, in watts. Null: that of a GPU is not known.
	PowerW *float64 `json:"power_w"`
	// power_w times duration_s: the energy of the measured part, in joules.
	EnergyJ *float64 `json:"energy_j"`
	// energy_j divided by the output tokens of completed requests. Null: either is not known, or the target has another
	// number of GPUs than the exporters report.
	JoulesPerOutputToken *float64 `json:"joules_per_output_token"`
	// What is missing or doubtful, in words.
	Notes []string `json:"notes"`
}

// GPUExporter is one exporter of GPU metrics.
type GPUExporter struct {
	// URL that the metrics were read from, without a password.
	URL string `json:"url"`
	// How often the metrics were read.
	Asked uint64 `json:"asked"`
	// How often the exporter did not answer in time, or not in Prometheus' text format.
	Failed uint64 `json:"failed"`
	// Values dropped because they exceeded the limit for one exporter.
	ValuesLeftOut uint64 `json:"values_left_out"`
	// Mean time between readings with a value that differs from the reading before, in seconds: how often the exporter
	// asks its GPUs, if their values change. Null: fewer than two such readings.
	UpdateS *float64 `json:"update_s"`
}

// GPU is what exporters reported for one GPU in the measured part of a stage. Each mean is that of the readings, one a
// second.
type GPU struct {
	// Host as its exporter names it. Empty: it does not.
	Host string `json:"host"`
	// Number of the GPU on its host.
	Number string `json:"number"`
	// UUID, or serial number.
	UUID string `json:"uuid"`
	// Model.
	Model string `json:"model"`
	// Number of instances into which the GPU is divided (MIG). 0: it is not.
	Instances int `json:"instances"`
	// Mean power, in watts. Null: not known.
	PowerW *float64 `json:"power_w"`
	// What power_w comes from: "energy" (growth of the GPU's own count of joules between its first and its last change)
	// or "readings" (mean of the power that it reported). Empty: power_w is not known.
	PowerFrom string `json:"power_from"`
	// Largest power that it reported, in watts.
	MaxPowerW *float64 `json:"max_power_w"`
	// Mean share of time in which the GPU did anything, from 0 to 1. It is 1 for a GPU with a single busy SM. Null: not
	// known, or the GPU is divided.
	Busy *float64 `json:"busy"`
	// Mean share of SM cycles with work. Null: not known, or the GPU is divided.
	SMActive *float64 `json:"sm_active"`
	// Mean share of cycles in which tensor cores worked. Null: not known, or the GPU is divided.
	TensorActive *float64 `json:"tensor_active"`
	// Largest memory in use, in MiB.
	MemoryMiB *float64 `json:"memory_mib"`
	// Mean clock of the SMs, in MHz.
	ClockMHz *float64 `json:"clock_mhz"`
	// Share of readings in which a power cap, heat or a slowdown by hardware kept the clocks low.
	Throttled *float64 `json:"throttled"`
}

// Work is what a target did in the measured part of a stage.
type Work struct {
	// Span is the length of the measured part in seconds. Nil: not known.
	Span *float64
	// OutputTokens are those of completed requests.
	OutputTokens uint64
}

const (
	// leastEnergyWindows is the least time between two changes of a GPU's count of joules, in windows, for its power to
	// come from it. Each change is known to a second.
	leastEnergyWindows = 10
	// slowUpdate is the time between updates, in seconds, from which values are called old: a second of readings is
	// then a small part of it.
	slowUpdate = 3
)

// GPUs returns what exporters of GPU metrics reported in the windows [from, to], or nil if the target has no exporters.
func (v *Metrics) GPUs(target *spatev1.Target, from, to uint32, work Work) *GPUResult {
	first, end := servermetrics.GPUSources(target)
	if first == end {
		return nil
	}
	urls := servermetrics.Sources(target)
	r := &GPUResult{Devices: []GPU{}, Notes: []string{}}
	all := map[deviceID]*device{}
	var changes []int // by exporter
	for source := first; source < end; source++ {
		e := GPUExporter{URL: naming.Redacted(urls[source]), ValuesLeftOut: uint64(v.refused[uint32(source)])}
		changed := map[uint32]bool{}
		for _, key := range slices.SortedFunc(maps.Keys(v.series), serverKey.compare) {
			if key.source != uint32(source) {
				continue
			}
			part := v.series[key].between(from, to)
			switch key.name {
			case servermetrics.Up:
				e.Asked, e.Failed = part.asked()
			case servermetrics.Dropped:
				e.ValuesLeftOut += uint64(part.sum())
			default:
				part.markChanges(changed)
				addTo(all, key, part)
			}
		}
		e.UpdateS = meanGap(changed)
		r.Exporters = append(r.Exporters, e)
		changes = append(changes, len(changed))
	}
	r.addDevices(all)
	for i, e := range r.Exporters {
		r.noteExporter(e, changes[i])
	}
	r.addWork(target, work)
	return r
}

// markChanges adds the windows in which a series differs from its previous sample, of the last windows, of which all
// samples are kept.
func (s *serverSeries) markChanges(windows map[uint32]bool) {
	for i := 1; i < len(s.samples); i++ {
		recent := s.samples[i].window+recentSamples >= s.samples[len(s.samples)-1].window
		if recent && s.samples[i].value != s.samples[i-1].value {
			windows[s.samples[i].window] = true
		}
	}
}

// meanGap returns the mean distance of windows in seconds, or nil if there are fewer than two.
func meanGap(windows map[uint32]bool) *float64 {
	if len(windows) < 2 {
		return nil
	}
	sorted := slices.Sorted(maps.Keys(windows))
	return new(float64(sorted[len(sorted)-1]-sorted[0]) / float64(len(sorted)-1))
}

// device collects the series of a GPU, or of an instance of one.
type device struct {
	identity
	source uint32                  // its series come from one exporter only
	series map[string]serverSeries // by quantity
}

// addTo adds a series to its GPU. A GPU that several exporters report, or one that a series has for each container that
// uses it, is taken from the first.
func addTo(all map[deviceID]*device, key serverKey, part serverSeries) {
	metric, known := deviceMetrics[strings.TrimPrefix(key.name, "amd_")]
	id, ok := identify(key.labels)
	if !known || !ok {
		return
	}
	d := all[id.deviceID]
	if d == nil {
		d = &device{identity: id, source: key.source, series: map[string]serverSeries{}}
		all[id.deviceID] = d
	}
	if d.source != key.source || len(d.series[metric.quantity].samples) > 0 {
		return
	}
	part.samples = slices.DeleteFunc(part.samples, func(s serverSample) bool { return isBlank(s.value) })
	for i := range part.samples {
		part.samples[i].value *= metric.factor
	}
	d.series[metric.quantity] = part
}

// addDevices adds the GPUs, with their instances put together.
func (r *GPUResult) addDevices(all map[deviceID]*device) {
	byUUID := map[string][]*device{}
	for _, d := range all {
		byUUID[d.uuid] = append(byUUID[d.uuid], d)
	}
	for _, parts := range byUUID {
		slices.SortFunc(parts, func(a, b *device) int { return cmp.Compare(a.instance, b.instance) })
		r.Devices = append(r.Devices, together(parts))
	}
	slices.SortFunc(r.Devices, func(a, b GPU) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(len(a.Number), len(b.Number)),
			cmp.Compare(a.Number, b.Number), cmp.Compare(a.UUID, b.UUID))
	})
}

// together returns a GPU of its parts: itself, and its instances if it is divided. Exporters report a GPU's power,
// energy and clock with every instance of it; memory is the instances' own.
func together(parts []*device) GPU {
	whole := parts[0]
	g := GPU{Host: whole.host, Number: whole.number, UUID: whole.uuid, Model: whole.model}
	g.Instances = lists.Count(parts, func(p *device) bool { return p.instance != "" })
	of := func(q string) serverSeries {
		for _, p := range parts {
			if len(p.series[q].samples) > 0 {
				return p.series[q]
			}
		}
		return serverSeries{}
	}
	g.PowerW, g.PowerFrom = powerOf(of(energy), of(power))
	g.MaxPowerW, g.ClockMHz, g.Throttled = largest(of(power)), meanValue(of(clockMHz)), throttledShare(of(reasons))
	if g.Instances == 0 {
		g.Busy, g.SMActive, g.TensorActive = meanValue(of(busy)), meanValue(of(smActive)), meanValue(of(tensor))
	}
	g.MemoryMiB = memoryOf(parts)
	return g
}

// memoryOf returns the largest memory in use: the whole GPU's if that is known, otherwise the sum over its instances.
func memoryOf(parts []*device) (sum *float64) {
	for _, p := range parts {
		most := largest(p.series[memory])
		switch {
		case most == nil:
		case p.instance == "":
			return most
		case sum == nil:
			sum = most
		default:
			sum = new(*sum + *most)
		}
	}
	return sum
}

// powerOf returns the mean power by a GPU's count of joules or, if that changed too rarely to tell, by its readings.
func powerOf(joules, watts serverSeries) (mean *float64, from string) {
	var first, last serverSample
	changes := 0
	for i := 1; i < len(joules.samples); i++ {
		before, now := joules.samples[i-1], joules.samples[i]
		switch {
		case now.value < before.value: // the driver was loaded again
			changes = 0
		case now.value > before.value:
			if last = now; changes == 0 {
				first = last
			}
			changes++
		}
	}
	if changes >= 2 && last.window-first.window >= leastEnergyWindows {
		return new((last.value - first.value) / float64(last.window-first.window)), "energy"
	}
	if len(watts.samples) == 0 {
		return nil, ""
	}
	return meanValue(watts), "readings"
}

// meanValue returns the mean of a series, or nil if it has no values.
func meanValue(s serverSeries) *float64 {
	if len(s.samples) == 0 {
		return nil
	}
	return new(s.mean())
}

// largest returns the largest value of a series, or nil if it has none.
func largest(s serverSeries) *float64 {
	if len(s.samples) == 0 {
		return nil
	}
	_, most := s.extremes()
	return &most
}

// throttledShare returns the share of samples with a bit of throttled, or nil if there are no samples.
func throttledShare(s serverSeries) *float64 {
	if len(s.samples) == 0 {
		return nil
	}
	count := lists.Count(s.samples, func(p serverSample) bool { return uint64(p.value)&throttled != 0 })
	return new(float64(count) / float64(len(s.samples)))
}

// addWork adds the sums over all GPUs, and what they mean for the work done.
func (r *GPUResult) addWork(target *spatev1.Target, work Work) {
	sum, unknown := 0.0, 0
	for _, g := range r.Devices {
		if g.PowerW == nil {
			unknown++
			continue
		}
		sum += *g.PowerW
	}
	told := target.GetGpus()
	switch {
	case len(r.Devices) == 0:
		r.note("No exporter reported a GPU.")
		return
	case unknown > 0:
		r.note("The power of %d of %d GPUs is not known, so there is no sum.", unknown, len(r.Devices))
		return
	}
	r.PowerW = &sum
	if work.Span == nil {
		return
	}
	r.EnergyJ = new(sum * *work.Span)
	switch {
	case told != 0 && int(told) != len(r.Devices):
		r.note("The target has gpus: %d, and the exporters report %d: the energy is that of other work, too.", told,
			len(r.Devices))
	case work.OutputTokens > 0:
		r.JoulesPerOutputToken = new(*r.EnergyJ / float64(work.OutputTokens))
	}
}

// noteExporter adds what is missing of an exporter's metrics, and says if its values are old. changes is the number of
// readings with new values.
func (r *GPUResult) noteExporter(e GPUExporter, changes int) {
	switch {
	case e.Asked == 0:
		r.note("%s was not read: no agent could reach it, its agent was lost, or the measured part was too short.", e.URL)
	case e.Failed > 0:
		r.note("%s did not answer %d of %d times.", e.URL, e.Failed, e.Asked)
	}
	if e.ValuesLeftOut > 0 {
		r.note("%s has too many series: %d values were dropped.", e.URL, e.ValuesLeftOut)
	}
	switch {
	case len(r.Devices) == 0:
	case e.UpdateS != nil && *e.UpdateS >= slowUpdate:
		r.note("%s has new values every %.0f s only: %s.", e.URL, *e.UpdateS, oldValues)
	case changes < 2 && e.Asked-e.Failed >= slowUpdate:
		r.note("The values of %s changed %d times in %d readings: %s.", e.URL, changes, e.Asked-e.Failed, oldValues)
	}
}

// oldValues says what values that change rarely mean, and what to do.
const oldValues = "they may be from before the measured part; start it with a shorter interval " +
	"(dcgm-exporter --collect-interval 1000), or make the stage longer"

// note adds a note.
func (r *GPUResult) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}
