package sinktest_test

import (
	"testing"

	"github.com/spate-load/spate/aggregate/sink/sinktest"
)

func TestRecorder(t *testing.T) {
	sinktest.Run(t, func(*testing.T) sinktest.Opened {
		recorder := new(sinktest.Recorder)
		return sinktest.Opened{Sink: recorder, Rows: recorder.Rows}
	})
}
