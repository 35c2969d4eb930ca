package servermetrics

import (
	"cmp"
	_ "embed" // the table of metrics
	"strconv"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Quantities that metrics of a GPU measure.
const (
	power    = "power"     // W
	energy   = "energy"    // J, since some time in the past
	busy     = "busy"      // share of time in which the GPU did anything
	memory   = "memory"    // MiB in use
	smActive = "sm_active" // share of the SMs' cycles with work, over all SMs
	tensor   = "tensor"    // share of cycles in which the tensor cores worked
	clockMHz = "clock_mhz" // MHz of the SMs
	reasons  = "reasons"   // NVML's bits of why clocks are lower than they could be
)

// deviceMetric says what a metric means: its quantity, and the factor to the quantity's unit.
type deviceMetric struct {
	quantity string
	factor   float64
}

//go:embed gpus.txt
var deviceTable string

// deviceMetrics are the metrics of exporters of GPU metrics by name.
var deviceMetrics = func() map[string]deviceMetric {
	all := map[string]deviceMetric{}
	for row := range tableRows(deviceTable) {
		factor, err := strconv.ParseFloat(row[2], 64)
		if err != nil {
			panic(err)
		}
		all[row[0]] = deviceMetric{row[1], factor}
	}
	return all
}()

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
	id = identity{
		host: cmp.Or(of["Hostname"], of["hostname"]), number: cmp.Or(of["gpu"], of["gpu_id"]),
		model: cmp.Or(of["modelName"], of["card_model"]),
	}
	id.uuid = cmp.Or(of["UUID"], of["uuid"], of["gpu_uuid"], of["serial_number"])
	if id.uuid == "" && id.number != "" { // an exporter without numbers of its own
		id.uuid = id.host + "/" + id.number
	}
	id.instance = of["GPU_I_ID"]
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
