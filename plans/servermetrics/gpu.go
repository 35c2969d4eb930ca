package servermetrics

import (
	"slices"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// gpuMetrics are the gauges and counters of GPUs that are read, the most important first: power and energy, activity,
// memory, clocks. Sources, read in November 2026: NVIDIA's dcgm-exporter (etc/default-counters.csv, and
// DCGM_FI_DEV_CLOCKS_EVENT_REASONS, formerly DCGM_FI_DEV_CLOCK_THROTTLE_REASONS, for those who enable it); AMD's
// device-metrics-exporter (docs/configuration/metricslist.md), which may be set to put "amd_" in front of its names. Its
// gpu_clock is left out: it has a series for each die and domain, some 15 for a GPU.
var gpuMetrics = []string{
	"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED",
	"DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_SM_CLOCK",
	"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",

	"gpu_package_power", "gpu_average_package_power", "gpu_power_usage", "gpu_energy_consumed", "gpu_gfx_activity",
	"gpu_used_vram",
	"amd_gpu_package_power", "amd_gpu_average_package_power", "amd_gpu_power_usage", "amd_gpu_energy_consumed",
	"amd_gpu_gfx_activity", "amd_gpu_used_vram",
}

// GPUMetrics returns the names of the metrics that are read from exporters of GPU metrics, the most important first.
func GPUMetrics() []string { return slices.Clone(gpuMetrics) }

// GPUSources returns the numbers of a target's sources that are exporters of GPU metrics: those in [from, to).
func GPUSources(t *spatev1.Target) (from, to int) {
	to = len(Sources(t))
	return to - len(t.GetServerMetrics().GetGpuUrls()), to
}

// IsGPUSource reports whether the source with a number is an exporter of GPU metrics.
func IsGPUSource(t *spatev1.Target, number uint32) bool {
	from, to := GPUSources(t)
	return int(number) >= from && int(number) < to
}
