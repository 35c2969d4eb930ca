package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/e2e/programs"
)

const gpusPlan = `
name: gpus
seed: 3
targets:
  - name: server
    endpoints: [%q]
    model: m
    gpus: 2
    server_metrics: {read: ends, gpu_urls: ["%s/dcgm", "%s/amd"]}
workloads:
  - random: {isl: 60, osl: 30}
loads:
  - concurrency: [4]
    duration: 4s
`

// dcgmPage is a page in the form of dcgm-exporter 4 in a cluster. A real one also has other temperatures, PCIe and ECC.
// The count of mJ is that of a GPU at 300 W.
const dcgmPage = `# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52",pci_bus_id="00000000:18:00.0",device="nvidia0",modelName="NVIDIA H20",Hostname="n1",DCGM_FI_DRIVER_VERSION="570.86.15",container="vllm",namespace="llm",pod="vllm-0"} 1980
# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52",pci_bus_id="00000000:18:00.0",device="nvidia0",modelName="NVIDIA H20",Hostname="n1",DCGM_FI_DRIVER_VERSION="570.86.15",container="vllm",namespace="llm",pod="vllm-0"} 305.123000
# HELP DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION Total energy consumption since boot (in mJ).
# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52",pci_bus_id="00000000:18:00.0",device="nvidia0",modelName="NVIDIA H20",Hostname="n1",DCGM_FI_DRIVER_VERSION="570.86.15",container="vllm",namespace="llm",pod="vllm-0"} %d
# HELP DCGM_FI_DEV_MEMORY_TEMP Memory temperature (in C).
# TYPE DCGM_FI_DEV_MEMORY_TEMP gauge
DCGM_FI_DEV_MEMORY_TEMP{gpu="0",UUID="GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52"} 9223372036854775794
# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %%).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52",pci_bus_id="00000000:18:00.0",device="nvidia0",modelName="NVIDIA H20",Hostname="n1",DCGM_FI_DRIVER_VERSION="570.86.15",container="vllm",namespace="llm",pod="vllm-0"} 97
`

// amdPage is a page in the form of AMD's device-metrics-exporter, where all metrics are gauges. The count of uJ is that
// of a GPU at 700 W.
const amdPage = `# HELP gpu_package_power Current socket power in Watts
# TYPE gpu_package_power gauge
gpu_package_power{card_model="102-G30211-0C",gpu_id="0",hostname="m1",serial_number="692231000131"} 748
# HELP gpu_energy_consumed Accumulated energy consumed by the GPU in uJ
# TYPE gpu_energy_consumed gauge
gpu_energy_consumed{card_model="102-G30211-0C",gpu_id="0",hostname="m1",serial_number="692231000131"} %d
# HELP gpu_used_vram Total VRAM memory used in MB
# TYPE gpu_used_vram gauge
gpu_used_vram{card_model="102-G30211-0C",gpu_id="0",hostname="m1",serial_number="692231000131"} 183265
`

// The power of GPUs is what their exporters read in the measured part, and the energy of a token follows. Ten seconds
// would let their counts of joules be used instead, see package servermetrics.
func TestGPUsAreReadBesideTheServer(t *testing.T) {
	t.Parallel()
	began := time.Now()
	exporters := http.NewServeMux()
	exporters.HandleFunc("/dcgm", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, dcgmPage, int64(7e11)+300*time.Since(began).Milliseconds())
	})
	exporters.HandleFunc("/amd", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, amdPage, int64(1.4e17)+700*time.Since(began).Microseconds())
	})
	beside := httptest.NewServer(exporters)
	t.Cleanup(beside.Close)
	server := programs.Simulate(t, 1, "--decode-step", "5ms")
	r := programs.RunPlan(t, fmt.Sprintf(gpusPlan, server.URLs[0], beside.URL, beside.URL), "--agents", "2")
	r.MustExit(0)
	stage := r.Results().Stages[0]
	g := stage.GPUs
	late := func(note string) bool { return strings.Contains(note, " did not answer ") } // for want of a core
	if g == nil || len(g.Devices) != 2 || g.JoulesPerOutputToken == nil || len(slices.DeleteFunc(g.Notes, late)) != 0 {
		t.Fatalf("%+v", g)
	}
	nvidia, amd := g.Devices[1], g.Devices[0]
	if nvidia.Model != "NVIDIA H20" || nvidia.PowerFrom != "readings" || *nvidia.ClockMHz != 1980 ||
		amd.UUID != "692231000131" || amd.PowerFrom != "readings" || *amd.MemoryMiB != 183265 {
		t.Errorf("%+v", g.Devices)
	}
	programs.Near(t, "busy", *nvidia.Busy, 0.97, 1e-9)
	programs.Near(t, "W of the H20", *nvidia.PowerW, 305.123, 1e-6)
	programs.Near(t, "W of the MI300X", *amd.PowerW, 748, 1e-6)
	programs.Near(t, "J", *g.EnergyJ, (*nvidia.PowerW+*amd.PowerW)**stage.DurationS, 1e-9)
	programs.Near(t, "J a token", *g.JoulesPerOutputToken, *g.EnergyJ/float64(*stage.OutputTokens), 1e-9)
	if text := r.Text("report.md"); !strings.Contains(text, "## GPUs") {
		t.Errorf("report.md has no GPUs:\n%s", text)
	}
	if a := stage.ServerAccount; a == nil || a.Requests.Counted != stage.Requests.Completed {
		t.Errorf("the server's account: %+v", a)
	}
	for _, s := range stage.Servers {
		for _, m := range s.Metrics {
			if m.Kind == "gauge" {
				t.Errorf("the server was read each second: %+v", m)
			}
		}
	}
}
