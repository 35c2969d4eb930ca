// Package recorder turns what happens to the requests of a stage into one snapshot a second.
//
// Requests are recorded by many goroutines at once, each through one of a few shards, and a single sealer merges the
// shards of each window that is over. Nothing is lost and nothing is counted twice: an event goes to the window of its
// time, or to the oldest window that has not been sealed yet. A shard keeps the plain values of its open windows, so
// that memory follows the events and not endpoints x metrics x cores; they become histograms when the window is sealed.
//
// A request is recorded once, at its end, with all that it measured, its inter-token gaps too: only then is it known
// whether it failed, and a failed request counts in no latency. Token arrivals alone are counted as they come.
//
// The package makes no requests, sends nothing and starts no goroutine. The agent's executor calls it.
package recorder
