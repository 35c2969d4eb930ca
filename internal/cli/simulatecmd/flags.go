package simulatecmd

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/simulator/config"
)

// simulateFlags are the flags of `spate simulate`.
type simulateFlags struct {
	config        config.Config
	speed         float64
	listen        []string
	truthFile     string
	faults        []string
	tls           bool
	caFile        string
	pace          config.Pace
	spread, ticks bool
}

func (f *simulateFlags) addFlags(cmd *cobra.Command) {
	command.SetGroups(
		cmd,
		f.served(),
		f.manners(),
		f.engines(),
		f.rhythm(),
		f.cache(),
		f.answers(),
		f.frames(),
		f.truth(),
	)
}

func (f *simulateFlags) served() command.FlagGroup {
	c := &f.config
	g := command.Group("What is served")
	g.Flags.StringSliceVar(&f.listen, "listen", []string{"127.0.0.1:8000"},
		"`addresses` to listen on, one endpoint each")
	g.Flags.StringVar(&c.ModelName, "model", c.ModelName, "model `name` to serve (default: every name)")
	g.Flags.IntVar(&c.MaxModelTokens, "max-model-tokens", c.MaxModelTokens,
		"longest prompt and output together, as reported by /v1/models (default: no limit)")
	g.Flags.IntVar(&c.Processors, "processors", max(1, runtime.GOMAXPROCS(0)-1),
		"processors that send the frames of one instant (default: all but one, which reads requests)")
	g.Flags.StringVar(&c.Protocol.HTTP, "http", "1.1",
		"HTTP `version`: 1.1, 2, or any; HTTP/2 without --tls is by prior knowledge")
	g.Flags.BoolVar(&f.tls, "tls", false,
		"serve HTTPS with a new certificate, and print the CA file to check it with")
	g.Flags.StringVar(&f.caFile, "ca-file", "",
		"with --tls: write the CA to this `file`, and keep it (default: a temporary file)")
	g.Flags.BoolVar(&c.AllowRemote, "allow-remote", false,
		"allow addresses beyond loopback: a simulator is not a server to leave on a network")
	return g
}

func (f *simulateFlags) manners() command.FlagGroup {
	c, m := &f.config, &f.config.Dialect
	g := command.Group(
		"How it identifies itself, and how it treats extensions: honoured, ignored, or refused with 400",
	)
	g.Flags.StringVar(&m.OwnedBy, "owned-by", m.OwnedBy,
		"`owner` that /v1/models names: vllm, nvidia for Dynamo, openai for LiteLLM")
	g.Flags.BoolVar(&m.NoTokenize, "no-tokenize", false, "have no /tokenize")
	g.Flags.IntVar(&c.ChatTemplateTokens, "chat-template-tokens", 0,
		"`tokens` that the chat template adds to a conversation")
	g.Flags.StringVar((*string)(&m.ExactOutput), "exact-output", string(config.Honoured),
		"ignore_eos and min_tokens: `treatment`")
	g.Flags.StringVar((*string)(&m.ContinuousUsage), "continuous-usage", string(config.Honoured),
		"stream_options.continuous_usage_stats: `treatment`; if refused, all stream options that OpenAI lacks are")
	g.Flags.StringVar((*string)(&m.Tools), "tools", string(config.Honoured),
		"tools, response_format and the like: `treatment`; a tool that tool_choice forces is called")
	g.Flags.Float64Var(&m.ToolCallShare, "tool-call-share", 0,
		"`share` of answers that call a tool where tool_choice is auto, from 0 to 1")
	g.Flags.StringVar((*string)(&m.TokenIDs), "token-ids", string(m.TokenIDs), "return_token_ids: `treatment`")
	g.Flags.BoolVar(&m.NVExt, "nvext", false, "answer Dynamo's nvext.extra_fields: timing and worker_id")
	return g
}

func (f *simulateFlags) engines() command.FlagGroup {
	c, m := &f.config, &f.config.Model
	g := command.Group("The engines behind each endpoint")
	flags := g.Flags
	flags.IntVar(&c.Replicas, "replicas", c.Replicas, "equal engines; with --prefill-engines those that decode")
	flags.Float64Var(
		&c.ReplicaSpread,
		"replica-spread",
		0,
		"how much slower the last engine is than the first, as a `share`; the others are evenly between",
	)
	flags.IntVar(&c.PrefillEngines, "prefill-engines", c.PrefillEngines,
		"engines that only prefill, so that the replicas only decode (default: each does both)")
	flags.Float64Var(&m.PrefillTokensPerSecond, "prefill", m.PrefillTokensPerSecond,
		"prompt `tokens per second` of one engine")
	flags.DurationVar(&m.PrefillPerPrompt, "prefill-per-prompt", 0,
		"time that each prompt holds its prefill engine beside the time for its tokens")
	flags.BoolVar(&m.PrefillSharing, "prefill-sharing", false,
		"let prompts share the prefill by time slices (default: one at a time, in order)")
	flags.DurationVar(&m.DecodeStep, "decode-step", m.DecodeStep, "time of a decode step with one running request")
	flags.DurationVar(&m.DecodeStepPerRequest, "decode-step-per-request", m.DecodeStepPerRequest,
		"time that each further running request adds to it")
	flags.BoolVar(&m.SpreadStep, "spread-step", m.SpreadStep,
		"send the tokens of a decode step evenly over it (default: all at its end, as engines that batch do)")
	flags.IntVar(&m.MaxRunning, "max-running", m.MaxRunning,
		"largest number of requests that one engine runs; the rest queue")
	flags.Float64Var(&m.PrefillInterference, "prefill-interference", m.PrefillInterference,
		"`share` of its decoding pace that an engine loses while it prefills, from 0 to 1 (default 0)")
	flags.DurationVar(&m.TransferPerThousandTokens, "transfer-per-thousand-tokens", m.TransferPerThousandTokens,
		"with --prefill-engines: time to hand over the KV cache of 1,000 prompt tokens")
	flags.Float64Var(
		&m.TransferInterference,
		"transfer-interference",
		0,
		"with --prefill-engines: `share` of their decoding speed that replicas lose while they receive a KV cache, from 0 to 1",
	)
	flags.BoolVar(
		&m.PrefillFirst,
		"prefill-first",
		false,
		"with --prefill-engines: prefill waiting prompts before finished ones are transferred, which then go together",
	)
	flags.Float64Var(&m.PrefillJitter, "prefill-jitter", 0,
		"`coefficient of variation` of a lognormal factor on the time of each prefill")
	flags.Float64Var(&m.StepJitter, "step-jitter", 0, "`coefficient of variation` of a lognormal factor on the time of each decode step")
	flags.Float64Var(&m.StallShare, "stall-share", 0, "`share` of the decode steps that take --stall longer")
	flags.DurationVar(&m.Stall, "stall", 0, "with --stall-share: how much longer")
	flags.DurationVar(&m.Overhead, "overhead", m.Overhead,
		"time that each request takes beside prefill and decode, before its first token")
	flags.Float64Var(&f.speed, "speed", 1, "run everything this many `times` faster than the flags say")
	return g
}

func (f *simulateFlags) rhythm() command.FlagGroup {
	g := command.Group("A steady rhythm instead of the engines (any of these flags selects it)")
	g.Flags.DurationVar(&f.pace.FirstToken, "ttft", 50*time.Millisecond, "time from a request to its first token")
	g.Flags.DurationVar(&f.pace.BetweenTokens, "itl", 10*time.Millisecond, "time from one token to the next")
	g.Flags.BoolVar(&f.spread, "spread", false,
		"each stream on its own schedule, from its arrival (the default without --ticks)")
	g.Flags.BoolVar(&f.ticks, "ticks", false,
		"all streams at the same instants, as batching engines do; first tokens at the next one")
	return g
}

func (f *simulateFlags) cache() command.FlagGroup {
	m := &f.config.Model
	g := command.Group("Their prefix cache")
	g.Flags.IntVar(&m.CacheBlocks, "cache-blocks", m.CacheBlocks,
		"`blocks` that an engine's prefix cache holds (default: no cache)")
	g.Flags.IntVar(&m.CacheBlockTokens, "cache-block-tokens", m.CacheBlockTokens, "prompt `tokens` of each block")
	return g
}

func (f *simulateFlags) answers() command.FlagGroup {
	c := &f.config
	g := command.Group("What the answers are like")
	g.Flags.BoolVar(&c.EarlyEOS, "early-eos", c.EarlyEOS,
		"end outputs at random lengths, all equally likely, unless a request says ignore_eos")
	g.Flags.Float64Var(&c.OutputLength.MeanShare, "output-share", 0,
		"like --early-eos, but with this mean `share` of max_tokens: each token is the last with the same chance")
	g.Flags.Float64Var(&c.OutputLength.Mean, "output-mean", 0,
		"like --early-eos, but after a lognormal number of `tokens` with this mean, or at max_tokens")
	g.Flags.Float64Var(&c.OutputLength.Stddev, "output-stddev", 0,
		"with --output-mean: its standard deviation in `tokens`")
	g.Flags.Float64Var(&c.Textless.Share, "textless-share", 0,
		"`share` of the tokens that are streamed without text, as halves of characters are")
	g.Flags.IntVar(&c.Textless.First, "textless-first", 0, "`tokens` without text at the start of each output")
	g.Flags.IntVar(&c.Textless.Last, "textless-last", 0, "`tokens` without text at the end of each output")
	g.Flags.IntVar(&c.Frames.ReasoningTokens, "reasoning-tokens", 0,
		"`tokens` at the start of each output that are reasoning")
	g.Flags.StringVar(
		&c.Frames.ReasoningField,
		"reasoning-field",
		"reasoning_content",
		"`field` of a chat's delta that carries reasoning: reasoning, or any other; hidden: it is not streamed, in any API",
	)
	g.Flags.BoolVar(&c.Frames.NoReasoningUsage, "reasoning-untold", false,
		"do not report the number of reasoning tokens in usage")
	g.Flags.StringArrayVar(
		&f.faults,
		"fault",
		nil,
		"a fault and its share of requests, `KIND=SHARE`[,after=TOKENS][,pause=TIME]; may be repeated; kinds: see above",
	)
	g.Flags.Uint64Var(&c.Seed, "seed", c.Seed, "seed of faults, early ends, tokens without text, jitter and stalls")
	return g
}

func (f *simulateFlags) frames() command.FlagGroup {
	s := &f.config.Frames
	g := command.Group("The shape of the streams")
	flags := g.Flags
	flags.StringVar((*string)(&s.Role), "role", string(s.Role),
		"`when` to send what comes before the first token, such as a chat's role: first-token, at-once or none")
	flags.StringVar((*string)(&s.Deliver), "deliver", string(config.DeliverAsProduced),
		"`how` answers are sent: as-produced, or at the end of the output as one-write, one-frame, two-frames or json-body")
	flags.IntVar(&s.TokensPerFrame, "tokens-per-frame", s.TokensPerFrame,
		"`tokens` of one frame, as with speculative decoding")
	flags.IntVar(&s.FramesPerWrite, "frames-per-write", 1,
		"token `frames` that go with one write, as through a proxy that buffers")
	flags.IntVar(&s.SplitBytes, "split-bytes", 0,
		"cut all writes into writes of this many `bytes` (default: whole frames)")
	flags.BoolVar(
		&s.FinishFrame,
		"finish-frame",
		false,
		"finish reason in its own frame, as OpenAI does (default: with the last token, as vLLM does)",
	)
	flags.BoolVar(&s.RunningUsage, "running-usage", false, "usage so far in every token frame, requested or not")
	flags.BoolVar(&s.NoUsage, "no-usage", false, "no usage, even if it is requested")
	flags.BoolVar(&s.NoEndMark, "no-end-mark", false, "no [DONE], response.completed or message_stop")
	flags.BoolVar(&s.CRLF, "crlf", false, "lines end with CR LF")
	flags.BoolVar(&s.Comments, "comments", false, "a comment before each frame")
	flags.DurationVar(&s.KeepAlive, "keep-alive", 0, "a comment after each silence of this length (default: none)")
	flags.BoolVar(&s.Trailers, "trailers", false, "an HTTP trailer at the end")
	return g
}

func (f *simulateFlags) truth() command.FlagGroup {
	t := &f.config.Truth
	g := command.Group("The truth about them")
	g.Flags.BoolVar(&t.Stamp, "truth", false, "stamp each frame with the instant it was sent at")
	g.Flags.StringVar(&f.truthFile, "truth-file", "",
		"write what was sent when to this `file`, a JSON line for each request")
	g.Flags.BoolVar(&t.Tokens, "truth-tokens", false, "with --truth-file: the send time of each token frame, too")
	return g
}

// complete fills in the settings that flags give in another form than the configuration.
func (f *simulateFlags) complete(given *pflag.FlagSet) error {
	for _, text := range f.faults {
		fault, err := parseFault(text)
		if err != nil {
			return err
		}
		f.config.Faults = append(f.config.Faults, fault)
	}
	if !(f.speed > 0) || f.speed > fastest {
		return fmt.Errorf("--speed %v: want more than 0 and at most %d", f.speed, fastest)
	}
	if f.spread && f.ticks {
		return errors.New("--spread and --ticks exclude one another: give one of them")
	}
	for _, name := range []string{"ttft", "itl", "spread", "ticks"} {
		if given.Changed(name) {
			f.config.Pace = f.pace
		}
	}
	f.config.Pace.Ticks = f.ticks
	f.config.Model.SpeedUp(f.speed)
	f.config.Pace.SpeedUp(f.speed)
	return nil
}

// parseFault parses KIND=SHARE and the settings after it.
func parseFault(text string) (config.Fault, error) {
	wrong := fmt.Errorf("--fault %q: want KIND=SHARE, for example 500=0.01 or stall=0.01,after=20,pause=2s", text)
	parts := strings.Split(text, ",")
	kind, share, _ := strings.Cut(parts[0], "=")
	probability, err := strconv.ParseFloat(share, 64)
	if err != nil {
		return config.Fault{}, wrong
	}
	fault := config.Fault{Kind: config.FaultKind(kind), Probability: probability, AfterTokens: 1}
	if fault.Kind == config.FaultDrip {
		fault.Pause = 10 * time.Millisecond
	}
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "after":
			fault.AfterTokens, err = strconv.Atoi(value)
		case "pause":
			fault.Pause, err = time.ParseDuration(value)
		default:
			err = wrong
		}
		if err != nil {
			return config.Fault{}, wrong
		}
	}
	return fault, nil
}

// hosts returns the hosts that the simulator listens on, for its certificate.
func (f *simulateFlags) hosts() []string {
	var hosts []string
	for _, addr := range f.listen {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// fieldFlags maps the simulator's fields to flags. A longer name comes before a name that it starts with.
var fieldFlags = strings.NewReplacer(
	"simulator: ReplicaSpread and PrefillEngines", "--replica-spread and --prefill-engines",
	"simulator: ReplicaSpread", "--replica-spread", "simulator: Model.PrefillPerPrompt", "--prefill-per-prompt",
	"simulator: Model.PrefillFirst and Model.PrefillSharing", "--prefill-first and --prefill-sharing",
	"simulator: Model.TransferInterference", "--transfer-interference", "simulator: Model.PrefillJitter",
	"--prefill-jitter",
	"simulator: Model.StepJitter", "--step-jitter", "simulator: Model.StallShare", "--stall-share",
	"simulator: Model.Stall", "--stall",
	"simulator: Replicas", "--replicas", "simulator: PrefillEngines", "--prefill-engines", "simulator: MaxModelTokens",
	"--max-model-tokens",
	"simulator: Model.PrefillTokensPerSecond", "--prefill", "simulator: Model.DecodeStepPerRequest",
	"--decode-step-per-request",
	"simulator: Model.DecodeStep", "--decode-step", "simulator: Model.MaxRunning", "--max-running",
	"simulator: Model.PrefillInterference", "--prefill-interference", "simulator: Model.TransferPerThousandTokens",
	"--transfer-per-thousand-tokens",
	"simulator: Model.Overhead", "--overhead", "simulator: Model.CacheBlockTokens", "--cache-block-tokens",
	"simulator: Model.CacheBlocks", "--cache-blocks",
	"simulator: Pace.FirstToken", "--ttft", "simulator: Pace.BetweenTokens", "--itl",
	"simulator: Protocol.HTTP", "--http",
	"simulator: Frames.TokensPerFrame", "--tokens-per-frame", "simulator: Frames.FramesPerWrite", "--frames-per-write",
	"simulator: Frames.SplitBytes", "--split-bytes", "simulator: Frames.ReasoningTokens", "--reasoning-tokens",
	"simulator: Frames.KeepAlive", "--keep-alive",
	"simulator: Frames.RunningUsage and Frames.NoUsage are both set",
	"--running-usage and --no-usage exclude one another",
	"simulator: Frames.Role", "--role", "simulator: Faults", "--fault ", "simulator: Frames.Deliver", "--deliver",
	"simulator: Frames.ReasoningField", "--reasoning-field", "simulator: ChatTemplateTokens", "--chat-template-tokens",
	"simulator: OutputLength.MeanShare and OutputLength.Mean are both set",
	"--output-share and --output-mean exclude one another",
	"simulator: OutputLength.Stddev is set without OutputLength.Mean: give both",
	"--output-stddev needs --output-mean",
	"simulator: OutputLength.MeanShare", "--output-share", "simulator: OutputLength.Mean", "--output-mean",
	"simulator: OutputLength.Stddev", "--output-stddev",
	"simulator: Textless.Share", "--textless-share", "simulator: Textless.First", "--textless-first",
	"simulator: Textless.Last", "--textless-last",
	"simulator: Dialect.ExactOutput", "--exact-output", "simulator: Dialect.ContinuousUsage", "--continuous-usage",
	"simulator: Dialect.TokenIDs", "--token-ids", "simulator: Dialect.ToolCallShare", "--tool-call-share",
	"simulator: Dialect.Tools", "--tools",
)

// inFlags rewrites an error of the configuration in terms of flags.
func inFlags(err error) error { return errors.New(fieldFlags.Replace(err.Error())) }

// fastest is the strongest --speed, as in plans.
const fastest = 10_000
