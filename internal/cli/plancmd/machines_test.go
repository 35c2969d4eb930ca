package plancmd

import (
	"testing"

	"github.com/spate-load/spate/plans"
)

func TestMachineWords(t *testing.T) {
	for lines, want := range map[string]string{
		"": "",
		"regions: {us: 1, eu: 2}\non_agent_loss: reassign":                "on_agent_loss: reassign",
		"agents: {count: 2, labels: {pool: big}}\non_agent_loss: degrade": "agents: 2 with pool=big; on_agent_loss: degrade",
	} {
		plan, err := plans.Load("p", []byte(`name: m
targets: [{name: t, endpoints: ["http://h"], model: m}]
workloads: [{random: {isl: 1, osl: 1}}]
loads: [{rate: [50], duration: 1s}]
`+lines), plans.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := machineWords(plan); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", lines, got, want)
		}
	}
}
