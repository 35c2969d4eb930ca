//go:build !unix

package calibration

// machineRoom is not known here.
func machineRoom() room { return room{} }
