package servermetrics

import (
	"maps"
	"math"
	"slices"
)

// Load is what servers and GPUs reported in one window. Nil: not all of those that have such a number did.
type Load [4]*float64

// Numbers of a Load: requests running and waiting, of all servers together; the mean of the servers' shares of the KV
// cache in use; and the power of all GPUs together, in watts.
const (
	Running = iota
	Waiting
	KVCacheUse
	PowerW
)

// loadGauges are the servers' gauges of the numbers of a Load.
var loadGauges = [...][]string{named("running"), named("waiting"), named("kv_cache_use")}

// Loads returns what servers and GPUs reported, by window. Each instance of a divided GPU has the power of all of it,
// and several exporters may have one GPU.
func (v *Metrics) Loads() map[uint32]Load {
	var all [len(Load{})][]serverSeries
	seen, loads := map[string]bool{}, map[uint32]Load{}
	for _, key := range slices.SortedFunc(maps.Keys(v.series), serverKey.compare) {
		for i, names := range loadGauges {
			if slices.Contains(names, key.name) {
				all[i] = append(all[i], *v.series[key])
			}
		}
		one := map[deviceID]*device{}
		addTo(one, key, v.series[key].between(0, math.MaxUint32))
		for id, d := range one {
			if s, known := d.series[power]; known && !seen[id.uuid] {
				seen[id.uuid] = true
				all[PowerW] = append(all[PowerW], s)
			}
		}
	}
	for i, reported := range all {
		sums, counts := map[uint32]float64{}, map[uint32]int{}
		for _, s := range reported {
			for _, p := range s.samples {
				sums[p.window] += p.value
				counts[p.window]++
			}
		}
		for window, n := range counts {
			if i == KVCacheUse {
				sums[window] /= float64(n)
			}
			if l := loads[window]; n == len(reported) {
				l[i] = new(sums[window])
				loads[window] = l
			}
		}
	}
	return loads
}
