// Package calibration finds out how exactly this machine's agent measures, and up to which load.
//
// An agent and a simulator run as two separate processes, each on its own cores if there are at least two. The
// simulator writes the true send time into each frame, on the clock that all processes of a machine share. The agent's
// process compares each frame's two times with it: the kernel's timestamp, and the program's own reading. The outcome
// is the error, by load, of each number that a run reports.
//
//	Calibrator (this process) --assigns loads--> agent process --requests--> simulator process
//	     ^---- readings, once a window ---------------'-----------------------'
//
// The agent is the same as in any run, with its session, loads, recorder and client, and this process has its
// coordinator (cluster.go): each load is a run. Nothing leaves loopback. The processes end when their input ends, so
// none is left behind, however the calibrator ends.
//
// Pure functions decide which load is safe (limit.go). The package prints nothing. `spate calibrate` calls it.
package calibration
