// Package simulator models LLM serving engines behind the APIs of today's servers, and records the true send time of
// each frame.
//
// It stands in where there is no GPU: for the simulated targets of a plan, `spate simulate`, the calibration of a
// machine, and tests of everything that talks to a server. A client under test is judged by the truth: the send time
// carried in each frame, and the record of each request. The simulator is not a benchmark of anything. It keeps no
// state on disk, it listens only on loopback unless configured otherwise, and the text it sends is meaningless.
//
// The engine (engine.go; decoder.go, cache.go) is pure: it takes requests and times and returns emissions. So it is
// tested without a clock, and hours of load are simulated in moments (virtual_test.go). It is an ordinary engine, or a
// disaggregated group of prefill and decode engines. A metronome (pace.go) replaces it where a steady rhythm is wanted.
// The loop (loop.go) runs either of them against the monotonic clock in one goroutine. The capacity of an endpoint is
// known in closed form: Config.Capacity.
//
// An API (api.go, and one file each) reads requests and encodes answers. Streams over plain HTTP/1.1 are lent to the
// loop, which writes each frame with one system call and wakes no other goroutine (lend.go, direct.go). Handlers send
// all other answers and all faults.
//
//	handler --submit--> loop [ engine or metronome ] --frames--> client
//	                      \--tokens ready--> handler --frames--> client
package simulator
