package sizing

import (
	"strings"
	"testing"
)

var eight = Machines{Cores: 8, Busy: 0.6}

// The formulas agree with whole agents that were measured: docs/benchmarks.md and docs/calibrate.md have the figures.
func TestFormulasAgreeWithMeasurements(t *testing.T) {
	for name, c := range map[string]struct {
		load  Load
		cores float64 // CPU time per second of all agents
		slack float64 // the formulas may be above that by this factor, but not below by more than 10 %
	}{
		"50,000 frames/s, spread":      {Load{1000, 50, 1e6, false, 1, 1}, 50_000 * 8.16e-6, 1.2},
		"741,000 frames/s, on 8 cores": {Load{14_820, 50, 1e6, false, 8, 1}, 6.64, 1.1},
		"10,000 short requests/s":      {Load{100, 100, 1, false, 1, 1}, 0.61, 1.4},
	} {
		s, err := Of(c.load, eight)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.FrameCores + s.RequestCores; got < 0.9*c.cores || got > c.slack*c.cores {
			t.Errorf("%s: %.2f cores, measured %.2f", name, got, c.cores)
		}
	}
}

func TestAgentsByWhatDecidesTheirNumber(t *testing.T) {
	for because, c := range map[string]struct {
		load   Load
		agents int
	}{
		"cores":        {Load{200_000, 50, 150, false, 64, 1}, 20},
		"source ports": {Load{100_000, 1, 150, false, 1, 1}, 4},
		"regions":      {Load{100, 1, 150, false, 1, 3}, 3},
	} {
		s, err := Of(c.load, eight)
		if err != nil || s.Agents != c.agents || s.Because != because {
			t.Errorf("%d agents because of %s, want %d because of %s (%v)", s.Agents, s.Because, c.agents, because, err)
		}
		if most := s.Streams * s.Agents; most < c.load.Streams || most >= c.load.Streams+s.Agents {
			t.Errorf("%s: %d streams each of %d", because, s.Streams, c.load.Streams)
		}
		busy := (s.FrameCores + s.RequestCores) / float64(s.Agents*eight.Cores)
		if busy > eight.Busy {
			t.Errorf("%s: agents are busy for %.2f", because, busy)
		}
	}
}

// With relays a coordinator has two connections for each, and receives, merges and writes less.
func TestRelays(t *testing.T) {
	load, relayed := Load{20_000_000, 50, 150, false, 1000, 1}, eight
	relayed.Relays = 3
	direct, _ := Of(load, eight)
	s, err := Of(load, relayed)
	if err != nil || direct.Relay != nil || s.Relay == nil {
		t.Fatalf("%v, without relays %+v, with them %+v", err, direct.Relay, s.Relay)
	}
	if a := s.Relay.Agents; 3*a < s.Agents || 3*(a-1) >= s.Agents || s.Relay.Files != 2*a+2+spareFiles {
		t.Errorf("%+v for %d agents", s.Relay, s.Agents)
	}
	if c, d := s.Coordinator, direct.Coordinator; c.Files != 6+spareFiles || c.Received >= d.Received/2 ||
		c.Ledger >= d.Ledger/2 || c.CPU >= d.CPU/2 || c.Memory != d.Memory || c.Received < addedUpBytes*3 {
		t.Errorf("%+v, without relays %+v", c, direct.Coordinator)
	}
	few, _ := Of(Load{1000, 50, 150, false, 1, 1}, relayed)
	if direct, _ = Of(Load{1000, 50, 150, false, 1, 1}, eight); few.Coordinator.CPU > direct.Coordinator.CPU {
		t.Errorf("relays of few agents take more of a coordinator: %+v, %+v", few.Coordinator, direct.Coordinator)
	}
}

func TestTLSTakesMore(t *testing.T) {
	load := Load{10_000, 50, 150, false, 1, 1}
	plain, _ := Of(load, eight)
	load.TLS = true
	secure, _ := Of(load, eight)
	if secure.FrameCores <= plain.FrameCores || secure.RequestCores != plain.RequestCores {
		t.Errorf("%+v\n%+v", plain, secure)
	}
}

func TestMistakesAreAllTold(t *testing.T) {
	_, err := Of(Load{}, Machines{Busy: 2, Relays: -1})
	if err == nil {
		t.Fatal("no error")
	}
	for _, words := range []string{"0 streams", "tokens per second", "output tokens", "endpoints", "regions", "0 cores",
		"2 of a core", "-1 relays"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%q is not in: %v", words, err)
		}
	}
}
