// Package calibration finds out how exact this machine's agent is, and up to which load it stays so.
//
// An agent and a simulator run as two processes of their own, on cores of their own where there are two. The simulator
// puts the true time of sending into each frame, on the clock that all processes of a machine share, and the agent's
// process compares each frame's times with it: the kernel's stamp, and the program's own reading. What comes of it is,
// by load, the error of each number that a run reports.
//
//	Calibrator (this process) --assigns loads--> agent process --requests--> simulator process
//	     ^---- readings, once a window ---------------'-----------------------'
//
// The agent is the one of any run: its session, loads, recorder and client; the package plays its coordinator
// (conductor.go). Nothing leaves loopback. The processes end with the input they are given, so that none is left
// behind, however the calibrator ends.
//
// It decides which load is safe by rules that are pure functions (limit.go), and prints nothing. `spate calibrate`
// calls it.
package calibration
