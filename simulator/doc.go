// Package simulator serves models of LLM serving engines behind the APIs of today's servers, and records the true send
// time of each frame.
//
// It stands in where there is no GPU: for the simulated targets of a plan, `spate simulate`, the calibration of a
// machine, and tests of everything that talks to a server. A client under test is judged by the truth: the send time
// carried in each frame, and the record of each request. The simulator is not a benchmark of anything. It keeps no
// state on disk, it listens only on loopback unless configured otherwise, and the text it sends is meaningless.
//
// A request takes this way: an API (package api) reads it and counts its prompt, the loop (loop.go) passes it to the
// model (package engine) and runs the model against the monotonic clock in one goroutine, and the API's templates make
// the frames of the tokens. Streams over plain HTTP/1.1 are lent to the loop, which writes each frame with one system
// call and wakes no other goroutine (lend.go, package wire). Handlers send all other answers and all faults.
//
//	handler --submit--> loop [ model ] --frames--> client
//	                      \--tokens ready--> handler --frames--> client
//
// Package config has the settings. Package fits compares the engines with real deployments.
package simulator
