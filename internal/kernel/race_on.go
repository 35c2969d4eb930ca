//go:build race

package kernel

// raceDetector reports whether the race detector is on. The detector learns the order of events on the two sides of a
// connection only from sends of the standard library.
const raceDetector = true
