package live

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/sink"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// stageRecord returns the record of a stage that has started.
func stageRecord(index uint32) *spatev1.StageRecord {
	return &spatev1.StageRecord{Stage: &spatev1.Stage{
		Index: index, Target: &spatev1.Target{Name: "t"}, Workload: &spatev1.Workload{Name: "w"}, Load: &spatev1.LoadPoint{},
	}, StartTime: timestamppb.Now()}
}

// stagesOf returns the stages of rows of a measurement.
func stagesOf(l *Latest, measurement string) (stages []string) {
	for _, row := range l.Rows() {
		if row.Measurement != measurement {
			continue
		}
		i := slices.IndexFunc(row.Tags, func(t sink.Tag) bool { return t.Key == "stage" })
		stages = append(stages, row.Tags[i].Value)
	}
	return stages
}

// The stage in progress is there, with what was measured half a second ago at the latest, and an ended one for some
// minutes, with its result.
func TestLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, stages, l := points.Run{ID: "r", Plan: "p"}, &Stages{}, &Latest{}
		if rows := l.Rows(); len(rows) != 0 {
			t.Errorf("without a run: %v", rows)
		}
		l.follow(run, stages)
		for i := range uint32(2) {
			rec := stageRecord(i)
			stages.Put(rec)
			time.Sleep(freshFor)
			want := [][]string{{"0"}, {"1", "0"}}[i]
			if got := stagesOf(l, sink.MeasurementToDate); !slices.Equal(got, want) {
				t.Errorf("during stage %d: stages %v, want %v", i, got, want)
			}
			l.end(run, rec, merge.NewStage(rec), results.StageResult{})
			stages.forget(i)
		}
		if got := stagesOf(l, sink.MeasurementStage); !slices.Equal(got, []string{"0", "1"}) {
			t.Errorf("results of stages %v", got)
		}
		time.Sleep(KeptFor - freshFor)
		if got := stagesOf(l, sink.MeasurementToDate); !slices.Equal(got, []string{"1"}) {
			t.Errorf("stages %v, want only the one whose time is not over", got)
		}
		time.Sleep(freshFor)
		if rows := l.Rows(); len(rows) != 0 {
			t.Errorf("after all that time: %v", rows)
		}
		for range 2 * mostKept {
			rec := stageRecord(7)
			l.end(run, rec, merge.NewStage(rec), results.StageResult{})
		}
		if got := stagesOf(l, sink.MeasurementStage); len(got) != mostKept {
			t.Errorf("%d stages are kept, want %d at most", len(got), mostKept)
		}
	})
}
