// Package simulator models LLM serving engines behind the APIs of today's servers and keeps the truth about when it
// sent each frame.
//
// It is for what has no GPU at hand: the simulated targets of a plan, `spate simulate`, the calibration of a machine,
// and tests of everything that talks to a server. A client under test is judged by the truth: the send time carried in
// each frame, and the record of each request. It must not be taken for a benchmark of anything, it keeps no state on
// disk, it answers only on loopback unless told otherwise, and the text it sends means nothing.
//
// The engine (engine.go; decoder.go, cache.go) is pure: it is fed requests and times and returns emissions, so it is
// tested without a clock, and loads of hours are put on it in moments (virtual_test.go). It is an ordinary engine, or a
// disaggregated group of prefill and decode engines. A metronome (pace.go) takes its place where a steady rhythm is
// wanted. The loop (loop.go) runs either against the monotonic clock in one goroutine. What an endpoint can take is
// known in closed form: Config.Capacity.
//
// An API (api.go, and a file for each) reads requests and encodes answers. Streams over plain HTTP/1.1 are lent to the
// loop, which writes each frame with one system call and wakes nobody (lend.go, direct.go); all others, and all faults,
// are the handlers'.
//
//	handler --submit--> loop [ engine or metronome ] --frames--> client
//	                      \--tokens ready--> handler --frames--> client
package simulator
