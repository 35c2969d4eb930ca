// Package kernel has the system calls of sockets and timers that never block. They bypass Go's scheduler: after a
// system call that the scheduler knows of, its monitor thread wakes every 20 us to see whether the call is still
// running. That costs a short request more than the rest of its work, and causes timer interrupts during others' work.
// Reads also return the kernel's receive timestamps.
//
// How to wait is up to the callers: agent/stream, the timers and the simulator.
package kernel
