package config

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"
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
		"Endpoints is 0":                                func(c *Config) { c.Endpoints = 0 },
		"Replicas is -1":                                func(c *Config) { c.Replicas = -1 },
		"MaxModelTokens is -1":                          func(c *Config) { c.MaxModelTokens = -1 },
		"ChatTemplateTokens is -2":                      func(c *Config) { c.ChatTemplateTokens = -2 },
		"PrefillTokensPerSecond is 0":                   func(c *Config) { c.Model.PrefillTokensPerSecond = 0 },
		"PrefillTokensPerSecond is NaN":                 func(c *Config) { c.Model.PrefillTokensPerSecond = math.NaN() },
		"DecodeStep is -1ns":                            func(c *Config) { c.Model.DecodeStep = -1 },
		"DecodeStepPerRequest is -1ns":                  func(c *Config) { c.Model.DecodeStepPerRequest = -1 },
		"MaxRunning is 0":                               func(c *Config) { c.Model.MaxRunning = 0 },
		"PrefillEngines is -1":                          func(c *Config) { c.PrefillEngines = -1 },
		"PrefillInterference is 1.5":                    func(c *Config) { c.Model.PrefillInterference = 1.5 },
		"PrefillInterference is NaN":                    func(c *Config) { c.Model.PrefillInterference = math.NaN() },
		"ThousandTokens is -1ns":                        func(c *Config) { c.Model.TransferPerThousandTokens = -1 },
		"Overhead is -1ns":                              func(c *Config) { c.Model.Overhead = -1 },
		"CacheBlocks is -1":                             func(c *Config) { c.Model.CacheBlocks = -1 },
		"CacheBlockTokens is 0":                         func(c *Config) { c.Model.CacheBlocks, c.Model.CacheBlockTokens = 1, 0 },
		"Frames.Role is \"never\"":                      func(c *Config) { c.Frames.Role = "never" },
		"TokensPerFrame is 0":                           func(c *Config) { c.Frames.TokensPerFrame = 0 },
		"ReasoningTokens is -1":                         func(c *Config) { c.Frames.ReasoningTokens = -1 },
		"Faults[1].Kind is \"fire\"":                    func(c *Config) { c.Faults = []Fault{{Kind: FaultCut}, {Kind: "fire"}} },
		"Faults[0].Probability is 1.5: give 0 to 1":     func(c *Config) { c.Faults = []Fault{{Kind: FaultCut, Probability: 1.5}} },
		"ReplicaSpread is -1":                           func(c *Config) { c.ReplicaSpread = -1 },
		"ReplicaSkew is -1":                             func(c *Config) { c.ReplicaSkew = -1 },
		"ReplicaSpread and PrefillEngines are both set": func(c *Config) { c.ReplicaSpread, c.PrefillEngines = 0.5, 1 },
		"TransferInterference is 2":                     func(c *Config) { c.Model.TransferInterference = 2 },
		"Model.PrefillFirst and Model.PrefillSharing": func(c *Config) {
			c.Model.PrefillFirst, c.Model.PrefillSharing = true, true
		},
		"PrefillPerPrompt is -1ns":    func(c *Config) { c.Model.PrefillPerPrompt = -1 },
		"PrefillJitter is -1":         func(c *Config) { c.Model.PrefillJitter = -1 },
		"StepJitter is +Inf":          func(c *Config) { c.Model.StepJitter = math.Inf(1) },
		"StallShare is NaN":           func(c *Config) { c.Model.StallShare = math.NaN() },
		"Model.Stall is -1ns":         func(c *Config) { c.Model.Stall = -1 },
		"OutputLength.Mean is NaN":    func(c *Config) { c.OutputLength.Mean = math.NaN() },
		"Stddev is set without":       func(c *Config) { c.OutputLength.Stddev = 5 },
		"TextlessShare is 1.5":        func(c *Config) { c.TextlessShare = 1.5 },
		"ExactOutput is \"never\"":    func(c *Config) { c.Dialect.ExactOutput = "never" },
		"Deliver is \"late\"":         func(c *Config) { c.Frames.Deliver = "late" },
		"ReasoningField is \"a b\"":   func(c *Config) { c.Frames.ReasoningField = "a b" },
		"Faults[0].AfterTokens is -1": func(c *Config) { c.Faults = []Fault{{Kind: FaultCut, AfterTokens: -1}} },
		"Pace.FirstToken is -1s":      func(c *Config) { c.Pace = Pace{FirstToken: -time.Second, BetweenTokens: 1} },
		"Pace.BetweenTokens is 0s":    func(c *Config) { c.Pace.Ticks = true },
		"Protocol.HTTP is \"3\": give one of [\"1.1\" \"2\" \"any\"]": func(c *Config) { c.Protocol.HTTP = "3" },
		"Model.MaxRunning is -3: give at least 1":                     func(c *Config) { c.Model.MaxRunning = -3 },
		"Model.Stall is -1ns: give at least 0s":                       func(c *Config) { c.Model.Stall = -1 },
	} {
		c := Default()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Each field of a plan's simulated target changes something.
func TestFromPlanUsesEveryField(t *testing.T) {
	words := map[string]string{"reasoning_field": "hidden", "deliver": "one-frame", "owned_by": "vllm",
		"exact_output": "ignored", "tools": "ignored"}
	fields := (&spatev1.SimulatedTarget{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		target := &spatev1.SimulatedTarget{}
		m := target.ProtoReflect()
		switch f.Kind() {
		case protoreflect.DoubleKind:
			m.Set(f, protoreflect.ValueOfFloat64(0.5))
		case protoreflect.Uint32Kind:
			m.Set(f, protoreflect.ValueOfUint32(7))
		case protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(true))
		case protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString(words[string(f.Name())]))
		case protoreflect.MessageKind:
			m.Set(f, protoreflect.ValueOfMessage(durationpb.New(7*time.Second).ProtoReflect()))
		default:
			t.Fatalf("%s: no value of its kind is known here", f.Name())
		}
		if cmp.Equal(Default(), FromPlan(target)) {
			t.Errorf("%s changes nothing", f.Name())
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
	want.Endpoints, want.Replicas, want.PrefillEngines = 3, 2, 4
	want.MaxModelTokens = 8192
	want.Frames.TokensPerFrame = 5
	want.Faults = []Fault{{Kind: FaultServerError, Probability: 0.25}}
	want.Model = Model{
		PrefillTokensPerSecond:    25, // twice as fast as configured, and so are all fields below
		DecodeStep:                3500 * time.Microsecond,
		DecodeStepPerRequest:      0,
		MaxRunning:                9,
		PrefillInterference:       0.5,
		TransferPerThousandTokens: 5 * time.Millisecond,
		Overhead:                  15 * time.Millisecond,
		CacheBlocks:               1000,
		CacheBlockTokens:          32,
	}
	got := FromPlan(&spatev1.SimulatedTarget{
		Endpoints:                 3,
		PrefillTokensPerSecond:    12.5,
		DecodeStep:                durationpb.New(7 * time.Millisecond),
		DecodeStepPerRequest:      durationpb.New(0),
		MaxRunning:                9,
		Replicas:                  2,
		PrefillEngines:            4,
		TransferPerThousandTokens: durationpb.New(10 * time.Millisecond),
		CacheBlockTokens:          32,
		CacheBlocks:               1000,
		MaxModelTokens:            8192,
		Overhead:                  durationpb.New(30 * time.Millisecond),
		TokensPerFrame:            5,
		ErrorShare:                0.25,
		Speed:                     2,
		PrefillInterference:       0.5,
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
}
