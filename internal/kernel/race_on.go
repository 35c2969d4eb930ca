//go:build race

package kernel

// raceDetector reports whether the race detector is on. The detector learns the order of events on the two sides of a
// connection only from sends of the standard library. What differs is the system call (write for sendto), not what the
// kernel does with it. The end-to-end tests run programs that are built without the detector.
const raceDetector = true
