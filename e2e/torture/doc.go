// Package torture runs the real programs under drawn faults and holds what they report against the truth.
//
// A seed draws a Script: a plan, a cluster and faults at drawn moments. The test starts coordinator and agents as
// processes on loopback, with a Link of its own between each agent and the coordinator and with the simulator inside
// the test, so that it knows every request that was answered. Judge then says where a result claims more, or hides
// more, than it may.
//
// Messages that come twice, late or in another order cannot be made from outside of a TCP connection: scripts with
// Messages play in one process, with faults where gRPC hands messages over. `make torture` is the only caller; nothing
// else may depend on this package.
package torture
