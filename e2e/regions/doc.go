// Package regions tests Spate over real networks. Coordinator, agents, servers and a person's terminal are processes on
// hosts of their own, behind links with delay, jitter and little bandwidth, which break. The package holds tests only.
// They are skipped, loudly, if package netlab cannot build networks.
//
// The tests run in parallel, since they mostly wait for the network.
package regions
