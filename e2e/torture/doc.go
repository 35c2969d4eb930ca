// Package torture runs the real programs under randomly drawn faults and compares what they report with the truth.
//
// A seed draws a Script: a plan, a cluster and faults at random moments. The test starts coordinator and agents as
// processes on loopback. Each agent has its own Link to the coordinator. The simulator runs inside the test, which
// therefore knows every request that was answered. Judge then reports where a result claims, or hides, more than it
// may.
//
// Messages that arrive twice, late or in another order cannot be made from outside a TCP connection. Scripts with
// Messages therefore run in one process, with faults where gRPC passes messages on. Only `make torture` runs the
// package, and nothing else may depend on it.
package torture
