// Package misbehaving tests Spate against servers that misbehave, in every API: a real agent is given endpoints that
// are each broken in one way, among sound ones. It holds tests only. Each fault's class is written down from
// docs/results.md, not from the code; the sound requests must come out exact, and the agent must stay small. The
// package writes the APIs by itself, from their public descriptions.
package misbehaving
