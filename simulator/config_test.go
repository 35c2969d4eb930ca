package simulator

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestDefaultIsValid(t *testing.T) {
	c := Default()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidate(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		"Endpoints is 0":                  func(c *Config) { c.Endpoints = 0 },
		"Replicas is -1":                  func(c *Config) { c.Replicas = -1 },
		"MaxBodyBytes is 0":               func(c *Config) { c.MaxBodyBytes = 0 },
		"MaxModelTokens is -1":            func(c *Config) { c.MaxModelTokens = -1 },
		"DefaultOutputTokens is 0":        func(c *Config) { c.DefaultOutputTokens = 0 },
		"ChatTemplateTokens is -2":        func(c *Config) { c.ChatTemplateTokens = -2 },
		"PrefillTokensPerSecond is 0":     func(c *Config) { c.Model.PrefillTokensPerSecond = 0 },
		"PrefillTokensPerSecond is NaN":   func(c *Config) { c.Model.PrefillTokensPerSecond = math.NaN() },
		"DecodeStep is -1ns":              func(c *Config) { c.Model.DecodeStep = -1 },
		"DecodeStepPerRequest is -1ns":    func(c *Config) { c.Model.DecodeStepPerRequest = -1 },
		"MaxRunning is 0":                 func(c *Config) { c.Model.MaxRunning = 0 },
		"Frames.Role is \"never\"":        func(c *Config) { c.Frames.Role = "never" },
		"TokensPerFrame is 0":             func(c *Config) { c.Frames.TokensPerFrame = 0 },
		"ReasoningTokens is -1":           func(c *Config) { c.Frames.ReasoningTokens = -1 },
		"KeepAlive is -1s":                func(c *Config) { c.Frames.KeepAlive = -time.Second },
		"RunningUsage and Frames.NoUsage": func(c *Config) { c.Frames.RunningUsage, c.Frames.NoUsage = true, true },
		"Faults[1]: kind \"fire\"":        func(c *Config) { c.Faults = []Fault{{Kind: FaultCut, Every: 1}, {Kind: "fire", Every: 1}} },
		"probability is 1.5":              func(c *Config) { c.Faults = []Fault{{Kind: FaultCut, Probability: 1.5}} },
		"give exactly one":                func(c *Config) { c.Faults = []Fault{{Kind: FaultCut}} },
		"after -1 tokens":                 func(c *Config) { c.Faults = []Fault{{Kind: FaultCut, Every: 1, AfterTokens: -1}} },
		"a drip needs a pause":            func(c *Config) { c.Faults = []Fault{{Kind: FaultDrip, Every: 1}} },
	} {
		c := Default()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if _, err := New(c); err == nil {
			t.Errorf("%q: New took it", want)
		}
		if _, err := Start(c); err == nil {
			t.Errorf("%q: Start took it", want)
		}
	}
}

func TestFromPlan(t *testing.T) {
	if diff := cmp.Diff(Default(), FromPlan(nil)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Default(), FromPlan(&spatev1.SimulatedTarget{})); diff != "" {
		t.Error(diff)
	}
	want := Default()
	want.Endpoints = 3
	want.Model = Model{PrefillTokensPerSecond: 12.5, DecodeStep: 7 * time.Millisecond, DecodeStepPerRequest: 0, MaxRunning: 9}
	got := FromPlan(&spatev1.SimulatedTarget{
		Endpoints:              3,
		PrefillTokensPerSecond: 12.5,
		DecodeStep:             durationpb.New(7 * time.Millisecond),
		DecodeStepPerRequest:   durationpb.New(0),
		MaxRunning:             9,
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
