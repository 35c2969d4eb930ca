// Package simulator models LLM serving engines behind the OpenAI API and keeps the truth about when it sent each frame.
//
// It is for what has no GPU at hand: the simulated targets of a plan, `spate simulate`, the calibration of a machine, and tests of
// everything that talks to a server. A client under test is judged by the truth: the send time carried in each frame, and the
// record of each request. It must not be taken for a benchmark of anything, it keeps no state on disk, it answers only on loopback
// unless told otherwise, and the text it sends means nothing.
//
// The engine (engine.go; decoder.go, cache.go) is pure: it is fed requests and times and returns emissions, so it is tested without a
// clock, and loads of hours are put on it in moments (virtual_test.go). It is an ordinary engine, or a disaggregated group of prefill
// and decode engines. The loop (loop.go) runs it against the monotonic clock in one goroutine. HTTP handlers wait for their request's
// tokens and write frames. What an endpoint can take is known in closed form: Config.Capacity.
//
//	handler --submit--> loop [ engine ] --tokens ready--> handler --frames--> client
package simulator
