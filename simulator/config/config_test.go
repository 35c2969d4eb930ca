package config

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/plans/defaults"
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
		`fault "fire" is not known: give one of`: func(c *Config) { c.Faults = []Fault{{Kind: FaultCut}, {Kind: "fire"}} },
		`share of fault "cut" is 1.5: give 0 to 1`: func(c *Config) {
			c.Faults = []Fault{{Kind: FaultCut, Probability: 1.5}}
		},
		`share of fault "cut" is NaN`: func(c *Config) {
			c.Faults = []Fault{{Kind: FaultCut, Probability: math.NaN()}}
		},
		`fault "cut" is after -1 tokens`: func(c *Config) { c.Faults = []Fault{{Kind: FaultCut, AfterTokens: -1}} },
		`pause of fault "stall" is -1ns`: func(c *Config) { c.Faults = []Fault{{Kind: FaultStall, Pause: -1}} },
		"Pace.FirstToken is -1s":         func(c *Config) { c.Pace = Pace{FirstToken: -time.Second, BetweenTokens: 1} },
		"Pace.BetweenTokens is 0s":       func(c *Config) { c.Pace.Ticks = true },
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
	if diff := cmp.Diff(Default(), FromPlan(defaults.Filled(&spatev1.SimulatedTarget{}))); diff != "" {
		t.Errorf("the schema has other defaults:\n%s", diff)
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
