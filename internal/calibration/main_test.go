package calibration

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also runs the two processes of a calibration, if it is called with their names.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 {
		var err error
		switch os.Args[1] {
		case "calibrated-agent":
			err = ServeAgent(os.Stdin, os.Stdout, os.Stderr, "test")
		case "calibrated-simulator":
			err = ServeSimulator(os.Stdin, os.Stdout)
		case "calibrated-mute":
			err = fmt.Errorf("no machine for this")
		default:
			goleak.VerifyTestMain(m)
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}
