package config

import (
	"cmp"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// FromPlan returns the configuration of a plan's simulated target: Default, overridden by what the plan sets. A
// duration that the plan sets to zero is zero. A nil target gives Default.
func FromPlan(t *spatev1.SimulatedTarget) Config {
	c := Default()
	c.Endpoints = cmp.Or(int(t.GetEndpoints()), c.Endpoints)
	if r := t.GetPrefillTokensPerSecond(); r > 0 {
		c.Model.PrefillTokensPerSecond = r
	}
	if d := t.GetDecodeStep(); d != nil {
		c.Model.DecodeStep = d.AsDuration()
	}
	if d := t.GetDecodeStepPerRequest(); d != nil {
		c.Model.DecodeStepPerRequest = d.AsDuration()
	}
	c.Model.MaxRunning = cmp.Or(int(t.GetMaxRunning()), c.Model.MaxRunning)
	c.Replicas = cmp.Or(int(t.GetReplicas()), c.Replicas)
	c.Frames.TokensPerFrame = cmp.Or(int(t.GetTokensPerFrame()), c.Frames.TokensPerFrame)
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
	c.ReplicaSpread, c.ReplicaSkew = t.GetReplicaSpread(), t.GetReplicaSkew()
	c.Model.PrefillPerPrompt = t.GetPrefillPerPrompt().AsDuration()
	c.Model.PrefillSharing = t.GetPrefillSharing()
	c.Model.PrefillJitter, c.Model.StepJitter = t.GetPrefillJitter(), t.GetStepJitter()
	c.Model.StallShare, c.Model.Stall = t.GetStallShare(), t.GetStall().AsDuration()
	c.Model.CacheBlocks = int(t.GetCacheBlocks())
	c.Model.CacheBlockTokens = cmp.Or(int(t.GetCacheBlockTokens()), c.Model.CacheBlockTokens)
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
	c.TextlessShare = t.GetTextlessShare()
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
	c.Dialect.Tools = FieldHandling(t.GetTools())
	c.Dialect.ToolCallShare = t.GetToolCallShare()
}
