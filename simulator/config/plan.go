package config

import (
	"cmp"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// FromPlan returns the configuration of a plan's simulated target: Default, overridden by what the plan sets. A
// duration that the plan sets to zero is zero. A nil target gives Default.
func FromPlan(t *spatev1.SimulatedTarget) Config {
	c := Default()
	if n := t.GetEndpoints(); n > 0 {
		c.Endpoints = int(n)
	}
	if r := t.GetPrefillTokensPerSecond(); r > 0 {
		c.Model.PrefillTokensPerSecond = r
	}
	if d := t.GetDecodeStep(); d != nil {
		c.Model.DecodeStep = d.AsDuration()
	}
	if d := t.GetDecodeStepPerRequest(); d != nil {
		c.Model.DecodeStepPerRequest = d.AsDuration()
	}
	if n := t.GetMaxRunning(); n > 0 {
		c.Model.MaxRunning = int(n)
	}
	if n := t.GetReplicas(); n > 0 {
		c.Replicas = int(n)
	}
	if n := t.GetTokensPerFrame(); n > 0 {
		c.Frames.TokensPerFrame = int(n)
	}
	if p := t.GetErrorShare(); p > 0 {
		c.Faults = []Fault{{Kind: FaultServerError, Probability: p}}
	}
	c.PrefillEngines = int(t.GetPrefillEngines())
	c.MaxModelTokens = int(t.GetMaxModelTokens())
	c.Model.PrefillInterference = t.GetPrefillInterference()
	c.Model.TransferPerThousandTokens = t.GetTransferPerThousandTokens().AsDuration()
	c.Model.TransferInterference = t.GetTransferInterference()
	c.Model.PrefillFirst = t.GetPrefillFirst()
	c.Model.Overhead = t.GetOverhead().AsDuration()
	c.ReplicaSpread = t.GetReplicaSpread()
	c.Model.PrefillPerPrompt = t.GetPrefillPerPrompt().AsDuration()
	c.Model.PrefillSharing = t.GetPrefillSharing()
	c.Model.PrefillJitter, c.Model.StepJitter = t.GetPrefillJitter(), t.GetStepJitter()
	c.Model.StallShare, c.Model.Stall = t.GetStallShare(), t.GetStall().AsDuration()
	c.Model.CacheBlocks = int(t.GetCacheBlocks())
	if n := t.GetCacheBlockTokens(); n > 0 {
		c.Model.CacheBlockTokens = int(n)
	}
	c.answersFromPlan(t)
	c.dialectFromPlan(t)
	if k := t.GetSpeed(); k > 0 {
		c.Model.SpeedUp(k)
	}
	return c
}

// answersFromPlan sets the shape of the answers from a plan.
func (c *Config) answersFromPlan(t *spatev1.SimulatedTarget) {
	c.OutputLength = OutputLength{MeanShare: t.GetOutputShare(), Mean: t.GetOutputMean(), Stddev: t.GetOutputStddev()}
	c.Textless.Share = t.GetTextlessShare()
	c.Frames.ReasoningTokens = int(t.GetReasoningTokens())
	c.Frames.ReasoningField = t.GetReasoningField()
	c.Frames.NoReasoningUsage = t.GetReasoningUntold()
	c.Frames.Deliver = Delivery(t.GetDeliver())
}

// dialectFromPlan sets the server's dialect from a plan.
func (c *Config) dialectFromPlan(t *spatev1.SimulatedTarget) {
	c.ChatTemplateTokens = int(t.GetChatTemplateTokens())
	c.Dialect.OwnedBy = cmp.Or(t.GetOwnedBy(), c.Dialect.OwnedBy)
	c.Dialect.NoTokenize = t.GetNoTokenize()
	c.Dialect.ExactOutput = FieldHandling(t.GetExactOutput())
	c.Dialect.ContinuousUsage = FieldHandling(t.GetContinuousUsage())
}
