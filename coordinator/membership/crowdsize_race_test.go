//go:build race

package membership

// A member has ten goroutines, and with more than about 250 in all the race detector itself sometimes fails
// ("ThreadSanitizer: CHECK failed: tsan_rtl.cpp:346"). The whole crowd is tested without the race detector.
const usualCrowd = 20
