// Package kernel has the system calls of sockets and timers that return at once, whatever there is. Go's scheduler does
// not hear of them: hearing of a system call it lets its watchman look every 20 us whether it lasts, which costs a
// short request more than all of its making and sets off timer interrupts in the midst of others' work. Reads bring the
// kernel's receive stamps along.
//
// Who waits, and how, is the caller's business: agent/stream, agent/timer and the simulator. It is Linux's alone.
package kernel
