//go:build !race

package kernel

// raceDetector reports whether the race detector is on.
const raceDetector = false
