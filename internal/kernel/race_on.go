//go:build race

package kernel

// raceDetector says that the race detector looks on. It learns what came before what on two sides of a connection from
// the standard library's sends alone.
const raceDetector = true
