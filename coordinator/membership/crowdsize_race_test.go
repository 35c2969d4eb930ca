//go:build race

package membership

// A member has ten goroutines, and of more than about 250 in all the race detector itself fails now and then
// ("ThreadSanitizer: CHECK failed: tsan_rtl.cpp:346"). The whole crowd is tested without it.
const crowdSize = 20
