package report

import (
	"path/filepath"
	"testing"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// The charts over time have the numbers of the result: the seconds add up to it, and every gap between tokens is
// watched.
func TestSecondsAddUpToTheResult(t *testing.T) {
	l, err := ledger.OpenReadOnly(filepath.Join(runDir(t, "", inOrder), ledger.File))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	gaps := uint64(0)
	watch := func(_ uint32, m spatev1.Metric, values histogram.Encoded) {
		if m == spatev1.Metric_METRIC_ITL {
			gaps += values.Count()
		}
	}
	_, err = results.Visit(l, results.Visitor{
		Start: func(*spatev1.StageRecord) merge.Watch {
			gaps = 0
			return watch
		},
		End: func(s *merge.Stage, rec *spatev1.StageRecord, r results.StageResult) error {
			var started, failed, tokens uint64
			for _, second := range results.SecondsOf(s, rec) {
				started, failed = started+second.Started, failed+second.Failed
				if second.Tokens != nil {
					tokens += *second.Tokens
				}
			}
			if started != r.Requests.Started || failed != r.Requests.Failed || tokens != *r.OutputTokens {
				t.Errorf("stage %d: seconds have %d started, %d failed, %d tokens; the result %d, %d, %d", r.Index,
					started, failed, tokens, r.Requests.Started, r.Requests.Failed, *r.OutputTokens)
			}
			if r.ITL == nil || gaps != r.ITL.Count {
				t.Errorf("stage %d: %d gaps were watched, the result has %+v", r.Index, gaps, r.ITL)
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}
