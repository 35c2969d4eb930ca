package fits

import (
	"math"
	"testing"
	"time"

	"github.com/spate-load/spate/simulator/config"
)

// With a queue that is never empty, an endpoint completes what Capacity says.
func TestCapacity(t *testing.T) {
	ms := time.Millisecond
	base := config.Model{PrefillTokensPerSecond: 50_000, DecodeStep: 5 * ms, DecodeStepPerRequest: ms / 20,
		MaxRunning: 64}
	changed := func(change func(*config.Model)) config.Config {
		c := config.Config{Replicas: 1, Model: base}
		change(&c.Model)
		return c
	}
	for name, c := range map[string]struct {
		config   config.Config
		isl, osl int
	}{
		"default, decode-bound":        {config.Config{Replicas: 1, Model: config.Default().Model}, 100, 150},
		"default, prefill-bound":       {config.Config{Replicas: 1, Model: config.Default().Model}, 3000, 100},
		"slots-bound":                  {config.Config{Replicas: 1, Model: base}, 200, 100},
		"one slot":                     {changed(func(m *config.Model) { m.MaxRunning = 1 }), 2000, 20},
		"two slots":                    {changed(func(m *config.Model) { m.MaxRunning = 2 }), 500, 50},
		"a prefill longer than a step": {changed(func(m *config.Model) { m.MaxRunning = 8 }), 2000, 150},
		"no prefill time": {changed(func(m *config.Model) { m.PrefillTokensPerSecond = math.Inf(1) }),
			2000, 20},
		"interference":          {changed(func(m *config.Model) { m.PrefillInterference = 1 }), 1000, 100},
		"half the interference": {changed(func(m *config.Model) { m.PrefillInterference = 0.5 }), 500, 200},
		"one token":             {config.Config{Replicas: 1, Model: base}, 2000, 1},
		"three replicas":        {config.Config{Replicas: 3, Model: base}, 200, 100},
		"disaggregated, bound by prefill": {config.Config{Replicas: 2, PrefillEngines: 3,
			Model: changed(func(m *config.Model) { m.TransferPerThousandTokens = 20 * ms }).Model}, 3000, 100},
		"disaggregated, bound by decode": {config.Config{Replicas: 1, PrefillEngines: 3, Model: base}, 300, 150},
		"overhead holds nothing":         {changed(func(m *config.Model) { m.Overhead = time.Second }), 200, 100},
	} {
		t.Run(name, func(t *testing.T) {
			want := Capacity(&c.config, c.isl, c.osl)
			got := closedLoop(&c.config, 1000*c.config.Replicas, 20_000, fixed(c.isl, c.osl)).steadyRate()
			t.Logf("%.3f requests/s, capacity %.3f: %+.2f %%", got, want, (got/want-1)*100)
			if math.Abs(got/want-1) > 0.01 {
				t.Errorf("%.3f requests/s, want %.3f", got, want)
			}
		})
	}
}

func TestCapacityWithoutBound(t *testing.T) {
	m := config.Model{PrefillTokensPerSecond: math.Inf(1), MaxRunning: 4}
	if x := Capacity(&config.Config{Replicas: 1, Model: m}, 100, 1); !math.IsInf(x, 1) {
		t.Errorf("%v, want +Inf", x)
	}
}

// Below the capacity, first tokens come as fast at the end as at the start. Above it, the queue grows. This is the knee
// that a search for the highest rate must find.
func TestCapacityIsTheKnee(t *testing.T) {
	c := config.Default()
	c.Model.MaxRunning = 64
	capacity := Capacity(&c, 200, 100)
	for _, k := range []struct {
		load float64
		slow bool
	}{{0.97, false}, {1.03, true}} {
		gap := time.Duration(float64(time.Second) / (capacity * k.load))
		got := openLoop(&c, func() time.Duration { return gap }, 20_000, 0, fixed(200, 100)).meanTTFT()
		if slow := got > 200*time.Millisecond; slow != k.slow {
			t.Errorf("at %.0f %% of the capacity the mean TTFT is %v", 100*k.load, got)
		}
	}
}
