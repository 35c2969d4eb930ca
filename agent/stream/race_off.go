//go:build !race

package stream

// raceDetector says that the race detector looks on.
const raceDetector = false
