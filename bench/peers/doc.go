// Peers puts Spate and other load generators for LLM serving under the same load from the same server, and holds what
// each reports against what the server did.
//
// For each run it starts `spate simulate` on one core and one tool, with all of its processes, on another, reads the
// tool's own results and the server's truth file, and notes CPU time and memory of the tool's processes. Rounds are
// interleaved (A, B, C, A, B, C), so that a machine that changes its pace is the same to all. It sends load to loopback
// only, every run is bounded in requests and in time, and it ends only processes that it started. `make bench-peers`
// calls it; docs/accuracy.md has what it found.
package main
