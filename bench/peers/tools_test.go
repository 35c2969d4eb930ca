package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// Each tool's real results (those of GuideLLM, AIPerf and Spate shortened to what is read and its surroundings).
func TestRead(t *testing.T) {
	n := func(v float64) *float64 { return &v }
	want := map[string]Report{
		"spate": {
			TTFT:    Summary{n(67.64816454999999), n(59.015167), n(78.991167)},
			ITL:     Summary{n(20.00721844747475), n(20.021247), n(48.889855)},
			TPOT:    Summary{n(20.0072184), n(20.037631), n(20.037768)},
			Connect: Summary{n(0.4218312), n(0.421375), n(0.7652)}, Requests: 20,
		},
		"aiperf": {
			TTFT: Summary{n(207.9921186), n(241.8778975), n(288.52693675)},
			ITL:  Summary{n(10.020999559595959), n(0.030683), n(79.30358657)},
			TPOT: Summary{n(10.020999559595959), n(10.35247348989899), n(10.762512967373738)}, Requests: 30,
		},
		"guidellm": {
			TTFT: Summary{n(51.87331835428874), n(50.96578598022461), n(59.336185455322266)},
			TPOT: Summary{n(20.18899291452735), n(20.15068795945909), n(20.918162182123975)}, Requests: 30,
		},
		"vllm": {
			TTFT: Summary{n(161.3949300499371), n(160.8224515002803), n(230.89620491417003)},
			ITL:  Summary{n(20.34229458485509), n(18.354619503952563), n(133.9516640117671)},
			TPOT: Summary{n(20.342294584855093), n(20.442849919191126), n(20.810706194574273)}, Requests: 20,
		},
		"evalscope": {
			TTFT: Summary{n(100.3), n(56.5653), n(207.796)}, ITL: Summary{n(20.17), n(20.0309), n(48.0299)},
			TPOT: Summary{n(20.17), n(20.1535), n(20.5138)}, Requests: 30,
		},
		"locust": {
			TTFT: Summary{n(507.1058682999137), n(920), n(970)}, ITL: Summary{n(18.16602262323696), n(19), n(120)},
			TPOT: Summary{n(18.166022623236955), n(20), n(20)}, Requests: 20,
		},
	}
	for _, tool := range tools {
		t.Run(tool.Name, func(t *testing.T) {
			got, err := tool.Read(filepath.Join("testdata", tool.Name))
			if err != nil {
				t.Fatal(err)
			}
			w := want[tool.Name]
			same(t, "TTFT", got.TTFT, w.TTFT)
			same(t, "ITL", got.ITL, w.ITL)
			same(t, "TPOT", got.TPOT, w.TPOT)
			same(t, "connect", got.Connect, w.Connect)
			if got.Requests != w.Requests || got.Failed != w.Failed {
				t.Errorf("%d requests and %d failed, want %d and %d", got.Requests, got.Failed, w.Requests, w.Failed)
			}
		})
	}
}

func same(t *testing.T, what string, got, want Summary) {
	t.Helper()
	for i, pair := range [][2]*float64{{got.Mean, want.Mean}, {got.P50, want.P50}, {got.P99, want.P99}} {
		a, b := pair[0], pair[1]
		if (a == nil) != (b == nil) || a != nil && *a != *b {
			t.Errorf("%s, number %d: %s, want %s", what, i, number(a), number(b))
		}
	}
}

// A tool without results must not be taken for one that reports zeros.
func TestReadNothing(t *testing.T) {
	for _, tool := range tools {
		if report, err := tool.Read(t.TempDir()); err == nil {
			t.Errorf("%s: %+v from an empty folder, want an error", tool.Name, report)
		}
	}
}

// Each tool gets the server's URL, the number of requests and the number in flight.
func TestStart(t *testing.T) {
	for _, tool := range tools {
		job := Job{
			Load: Load{Shape: Ticks, Streams: 123, Requests: 456, ISL: 7, OSL: 89}, URL: "http://127.0.0.1:9",
			Home: "/home", Dir: t.TempDir(), Spate: "/spate",
		}
		c, err := tool.Start(job)
		if err != nil {
			t.Fatal(err)
		}
		told := strings.Join(append(c.Args, c.Env...), " ")
		if tool.Name == "spate" {
			continue // its plan has them
		}
		for _, want := range []string{job.URL, "123", "456"} {
			if !strings.Contains(told, want) {
				t.Errorf("%s is not told %s: %s", tool.Name, want, told)
			}
		}
	}
}
