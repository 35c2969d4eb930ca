//go:build !race

package kernel

// raceDetector says that the race detector looks on.
const raceDetector = false
