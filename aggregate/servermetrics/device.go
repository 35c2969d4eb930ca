package servermetrics

import (
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// quantity is what a metric of a GPU measures.
type quantity int

const (
	power    quantity = iota // W
	energy                   // J, since some time in the past
	busy                     // share of time in which the GPU did anything
	memory                   // MiB in use
	smActive                 // share of the SMs' cycles with work, over all SMs
	tensor                   // share of cycles in which the tensor cores worked
	clockMHz                 // MHz of the SMs
	reasons                  // NVML's bits of why clocks are lower than they could be
	quantities
)

// deviceMetric says what a metric means: its quantity, and the factor to the quantity's unit.
type deviceMetric struct {
	quantity quantity
	factor   float64
}

// deviceMetrics are the metrics of exporters of GPU metrics by name. Units are those of the exporters' own lists
// (plans/servermetrics names them). AMD's names may have "amd_" in front.
var deviceMetrics = map[string]deviceMetric{
	"DCGM_FI_DEV_POWER_USAGE":              {power, 1},
	"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": {energy, 1e-3},
	"DCGM_FI_DEV_GPU_UTIL":                 {busy, 1e-2},
	"DCGM_FI_DEV_FB_USED":                  {memory, 1},
	"DCGM_FI_PROF_SM_ACTIVE":               {smActive, 1},
	"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE":      {tensor, 1},
	"DCGM_FI_DEV_SM_CLOCK":                 {clockMHz, 1},
	"DCGM_FI_DEV_CLOCKS_EVENT_REASONS":     {reasons, 1},
	"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS":   {reasons, 1},

	"gpu_package_power":         {power, 1},
	"gpu_average_package_power": {power, 1},
	"gpu_power_usage":           {power, 1},
	"gpu_energy_consumed":       {energy, 1e-6},
	"gpu_gfx_activity":          {busy, 1e-2},
	"gpu_used_vram":             {memory, 1},
}

// metricOf returns what a metric means. ok is false if it is not one of a GPU.
func metricOf(name string) (m deviceMetric, ok bool) {
	m, ok = deviceMetrics[strings.TrimPrefix(name, "amd_")]
	return m, ok
}

// throttled are the bits of reasons that lower the clocks of a GPU with work: power cap, slowdown by hardware, heat (by
// software and hardware) and power brake. Source: nvml.h, nvmlClocksEventReason constants.
const throttled = 0x4 | 0x8 | 0x20 | 0x40 | 0x80

// DCGM's values for "not known", "not found", "not supported" and "not permitted": 2^47 to 2^47+3 for numbers with a
// fraction, 2^63-16 and the next three for whole numbers. Source: dcgm_structs.h. AMD's library has the largest number
// of 32 or 64 bits. Newer exporters leave such values out.
const (
	blankFloat   = 1 << 47
	blankInteger = 1 << 62 // below the four, and above every measurement
	blank32      = 1<<32 - 1
)

// isBlank reports whether a value says that nothing is known.
func isBlank(v float64) bool {
	return v >= blankInteger || v == blank32 || v >= blankFloat && v <= blankFloat+3 || v < 0
}

// deviceID names a GPU, or one of the instances into which it is divided.
type deviceID struct {
	uuid     string // the GPU's own number, the same at every exporter
	instance string // empty: the GPU is not divided
}

// identity is what the labels of a series say of its GPU.
type identity struct {
	deviceID
	host, number, model string
}

// identify returns the GPU of a series. ok is false if its labels do not name one.
func identify(labels string) (id identity, ok bool) {
	of, err := parseLabels(labels)
	if err != nil {
		return id, false
	}
	first := func(names ...string) string {
		for _, name := range names {
			if of[name] != "" {
				return of[name]
			}
		}
		return ""
	}
	id = identity{
		host: first("Hostname", "hostname"), number: first("gpu", "gpu_id"), model: first("modelName", "card_model"),
	}
	id.uuid = first("UUID", "uuid", "gpu_uuid", "serial_number")
	if id.uuid == "" && id.number != "" { // an exporter without numbers of its own
		id.uuid = id.host + "/" + id.number
	}
	id.instance = first("GPU_I_ID")
	return id, id.uuid != ""
}

// parseLabels parses labels in Prometheus' text format.
func parseLabels(text string) (map[string]string, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader("m{" + text + "} 1\n"))
	if err != nil {
		return nil, err
	}
	labels := map[string]string{}
	for _, m := range families["m"].GetMetric() {
		for _, pair := range m.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
	}
	return labels, nil
}
