// Package misbehaving tests Spate against servers that misbehave, in every API. A real agent gets endpoints that are
// each broken in one way, and healthy ones beside them. The package holds tests only. The class of each fault is taken
// from docs/results.md, not from the code. The healthy requests must be measured exactly, and the agent must stay
// small. The package implements the APIs itself, from their public descriptions.
package misbehaving
