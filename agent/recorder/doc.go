// Package recorder turns the events of a stage's requests into one snapshot a second.
//
// Many goroutines record at once, each through one of a few shards. A single sealer merges the shards of each window
// that is over. Nothing is lost or counted twice: an event goes to the window of its time, or to the oldest window that
// is not sealed yet. A shard keeps the plain values of its open windows, so that its memory depends on the number of
// events, and not on endpoints x metrics x cores. The values become histograms when the window is sealed.
//
// A request is recorded once, at its end, with everything it measured, including its inter-token gaps: only then is it
// known whether it failed, and failed requests count in no latency. Only token arrivals are counted as they come.
//
// The package makes no requests, sends nothing and starts no goroutine. The agent's load calls it.
package recorder
