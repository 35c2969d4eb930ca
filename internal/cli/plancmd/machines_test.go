package plancmd

import (
	"testing"

	"github.com/spate-load/spate/plans"
)

func TestMachineWords(t *testing.T) {
	for lines, want := range map[string]string{
		"": "",
		"regions: {us: 1, eu: 2}\non_agent_loss: reassign": "regions: eu 66.7 %, us 33.3 %; on_agent_loss: reassign",
		"regions: {eu: 0.5, asia: 0.5}":                    "regions: asia 50 %, eu 50 %",
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
