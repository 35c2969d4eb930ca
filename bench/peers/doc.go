// Peers puts the same load on the same server with Spate and other load generators for LLM serving, and compares what
// each reports with what the server did.
//
// For each run it starts `spate simulate` on one core and one tool, with all of its processes, on another. It reads the
// tool's own results and the server's truth file, and records CPU time and memory of the tool's processes. Rounds are
// interleaved (A, B, C, A, B, C), so that a machine whose speed changes is the same for all. Load goes to loopback
// only, every run is bounded in requests and in time, and Peers ends only processes that it started. `make bench-peers`
// runs it; docs/accuracy.md has the results.
package main
