// Package regions tests Spate as it runs over real networks: coordinator, agents, servers and a person's terminal are
// processes on hosts of their own, behind links with delay, jitter and little bandwidth, which break. It holds tests
// only, and they are skipped, loudly, where package netlab cannot build networks.
//
// Most of what they do is wait for the network, so they run beside each other.
package regions
