package plans

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/plans/document"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Thresholds returns the thresholds of the plan that a run kept, with their loads in the words of the run's stages: in
// a simulation rates are higher than planned. It reads as much of the plan as this version knows. The error says that
// data is not YAML.
func Thresholds(data []byte) ([]*spatev1.Threshold, error) {
	plan := &spatev1.Plan{}
	if len(data) == 0 {
		return nil, nil
	}
	d, err := document.Parse("plan.yaml", data, plan.ProtoReflect().Descriptor(), Options{}.withDefaults().MaxBytes)
	if err != nil {
		return nil, err
	}
	if err := d.Read(plan); err != nil {
		return nil, err
	}
	if missed := len(d.Mistakes()); missed > 0 && !d.Complete() {
		return nil, fmt.Errorf("the plan cannot be read: %w", d.Mistakes())
	}
	asRun := loadsAsRun(plan)
	for _, t := range plan.GetThresholds() {
		if words := asRun[t.GetLoad()]; words != "" {
			t.Load = words
		}
	}
	return plan.GetThresholds(), nil
}

// loadsAsRun returns the loads of the stages in words, by the words of the loads as they are planned.
func loadsAsRun(plan *spatev1.Plan) map[string]string {
	speed, _ := speedOf(plan)
	words := make(map[string]string)
	for _, l := range plan.GetLoads() {
		for _, planned := range loadpoint.WithoutRepeats(l) {
			runs := proto.CloneOf(planned)
			compression(speed).load(runs)
			words[loadpoint.Words(planned)] = loadpoint.Words(runs)
		}
	}
	return words
}
