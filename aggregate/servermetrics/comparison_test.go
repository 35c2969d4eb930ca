package servermetrics

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// spread returns a distribution of count values around a mean.
func spread(count uint64, mean float64) *histogram.Summary {
	return &histogram.Summary{Count: count, Mean: mean, P50: mean, P90: 1.5 * mean, P99: 2 * mean}
}

// inSeconds returns a histogram of count values with a mean, all in one bucket.
func inSeconds(name string, count uint64, mean, low, high float64) *spatev1.ServerHistogram {
	return &spatev1.ServerHistogram{
		Name: name, Count: count, Sum: mean * float64(count), Bounds: []float64{low, high},
		Counts: []uint64{0, count, 0},
	}
}

// vllmAccount returns the account of a vLLM that served a number of requests.
func vllmAccount(requests uint64) *spatev1.ServerAccount {
	return &spatev1.ServerAccount{
		Counters: []*spatev1.ServerCounter{
			{Name: "vllm:prefix_cache_queries_total", Increase: 1000},
			{Name: "vllm:prefix_cache_hits_total", Increase: 250},
		},
		Histograms: []*spatev1.ServerHistogram{
			inSeconds("vllm:time_to_first_token_seconds", requests, 0.1, 0.08, 0.25),
			inSeconds("vllm:inter_token_latency_seconds", requests*9, 0.011, 0.01, 0.025),
			inSeconds("vllm:request_time_per_output_token_seconds", requests, 0.0105, 0.01, 0.025),
			inSeconds("vllm:e2e_request_latency_seconds", requests, 0.2, 0.1, 0.3),
			inSeconds("vllm:request_queue_time_seconds", requests, 0.03, 0, 0.3),
			inSeconds("vllm:request_prefill_time_seconds", requests, 0.06, 0, 0.3),
			inSeconds("vllm:request_decode_time_seconds", requests, 0.1, 0, 0.3),
		},
	}
}

// measuredOf returns what clients measured for a number of requests: they saw the first token 249 ms later than vLLM
// did.
func measuredOf(requests uint64) Client {
	return Client{
		Measured: requests, Sent: requests, TTFT: spread(requests, 349), ITL: spread(9*requests, 11),
		TPOT: spread(requests, 10.6), E2E: spread(requests, 440),
		SendDelay: spread(requests, 0.02), ReceiveLag: spread(10*requests, 0.05), Connect: spread(requests/2, 3),
		RTT: spread(requests/2, 0.5),
	}
}

// The parts of the TTFT add up to the TTFT, and the summary names the largest.
func TestServerAccountOfVLLM(t *testing.T) {
	a := compareAccounts(measuredOf(320), []*spatev1.ServerAccount{vllmAccount(320)})
	if a.Server != "vllm" || !a.Comparable || a.Note != "" || a.Requests != (AccountRequests{320, 320, 320}) {
		t.Errorf("%+v", a)
	}
	near := func(what string, got *float64, want float64) {
		t.Helper()
		if got == nil || math.Abs(*got-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("TTFT", &a.TTFT.Difference.Mean, 249)
	near("ITL", &a.ITL.Difference.Mean, 0)
	near("TPOT", &a.TPOT.Difference.Mean, 0.1)
	near("E2E", &a.E2E.Difference.Mean, 240)
	near("least of the median", a.TTFT.Difference.P50.Low, 349-250)
	near("most of the median", a.TTFT.Difference.P50.High, 349-80)
	near("cached", a.CachedShare, 0.25)
	p := a.Parts
	near("connect", p.Connect, 1.5)
	near("network", p.Network, 0.5)
	near("frontend", p.Frontend, 247)
	near("queue", p.Queue, 30)
	near("prefill", p.Prefill, 60)
	near("engine", p.Engine, 10)
	near("decode", p.Decode, 100)
	sum := *p.Connect + *p.Network + *p.Frontend + *p.Queue + *p.Prefill + *p.Engine
	near("their sum", &sum, 349)
	if p.Router != nil {
		t.Errorf("router %v", *p.Router)
	}
	if want := "TTFT 249.00 ms later than vLLM's own account, receive lag 0.05 ms: the server's frontend or the network, not this client"; a.Summary != want {
		t.Errorf("%s", a.Summary)
	}
}

// The summary names what makes up most of the difference.
func TestSummaryOfTheServerAccount(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Client)
		want   string
	}{
		{"alike", func(c *Client) { c.TTFT = spread(320, 101.4) },
			"TTFT within 1.40 ms of vLLM's own account, receive lag 0.05 ms"},
		{"alike, earlier", func(c *Client) { c.TTFT = spread(320, 99) },
			"TTFT within 1.00 ms of vLLM's own account, receive lag 0.05 ms"},
		{"earlier", func(c *Client) { c.TTFT = spread(320, 90) }, "TTFT 10.00 ms earlier than vLLM's own account"},
		{"a slow client", func(c *Client) { c.ReceiveLag = spread(320, 130) },
			"receive lag 130.00 ms: this client is behind"},
		{"a late client", func(c *Client) { c.SendDelay = spread(320, 130) }, "this client is behind"},
		{"connections", func(c *Client) { c.Connect = spread(320, 200) },
			"opening connections takes 200.00 ms of it"},
		{"far away", func(c *Client) { c.RTT = spread(10, 180) }, "the network takes 180.00 ms of it"},
		{"no stamps", func(c *Client) { c.ReceiveLag = nil },
			"TTFT 249.00 ms later than vLLM's own account: the server's frontend"},
	} {
		side := measuredOf(320)
		c.change(&side)
		if a := compareAccounts(side, []*spatev1.ServerAccount{vllmAccount(320)}); !strings.Contains(a.Summary,
			c.want) {
			t.Errorf("%s: %s", c.name, a.Summary)
		}
	}
}

// No difference is calculated if the two sides did not count the same requests.
func TestServerAccountOfOtherRequests(t *testing.T) {
	for _, c := range []struct {
		name       string
		accounts   []*spatev1.ServerAccount
		sent       uint64
		comparable bool
		note       string
	}{
		{"a server that was not read", []*spatev1.ServerAccount{vllmAccount(160)}, 320, false,
			"counted 160 of the 320 requests measured: others served the rest"},
		{"started again", []*spatev1.ServerAccount{{Restarted: true, Histograms: vllmAccount(100).GetHistograms()}},
			320, false, "a server was restarted"},
		{"prefill and decode apart", []*spatev1.ServerAccount{vllmAccount(320), vllmAccount(320)}, 330, false,
			"counted 640 requests, and this stage sent 330"},
		{"two replicas", []*spatev1.ServerAccount{vllmAccount(120), vllmAccount(200)}, 320, true, ""},
		{"a warm-up", []*spatev1.ServerAccount{vllmAccount(326)}, 352, true,
			"counted 6 requests beside the 320 measured"},
		{"a long cool-down", []*spatev1.ServerAccount{vllmAccount(353)}, 360, false,
			"and failed ones; make the measured part longer"},
	} {
		side := measuredOf(320)
		side.Sent = c.sent
		a := compareAccounts(side, c.accounts)
		if a.Comparable != c.comparable || !strings.Contains(a.Note, c.note) || (a.Note == "") != (c.note == "") {
			t.Errorf("%s: comparable %v, %q", c.name, a.Comparable, a.Note)
		}
		if known := a.TTFT.Difference != nil; known != c.comparable || (a.Parts.Frontend != nil) != known ||
			(a.CachedShare != nil) != known || (a.Summary != "") != known {
			t.Errorf("%s: %+v", c.name, a)
		}
		if math.Abs(a.TTFT.Server.Mean-100) > 1e-9 {
			t.Errorf("%s: the server's own mean is %v", c.name, a.TTFT.Server.Mean)
		}
	}
}

// Dynamo's frontend is in front of engines and counts each request once. The engines' numbers are used only if the
// engines count each request once, too.
func TestServerAccountOfDynamo(t *testing.T) {
	frontend := &spatev1.ServerAccount{Histograms: []*spatev1.ServerHistogram{
		inSeconds("dynamo_frontend_time_to_first_token_seconds", 320, 0.3, 0.22, 0.47),
		inSeconds("dynamo_frontend_request_duration_seconds", 320, 0.4, 0.2, 0.5),
		{Name: "dynamo_frontend_cached_tokens", Count: 320, Sum: 1000}, {Name: "dynamo_frontend_input_sequence_tokens",
			Count: 320, Sum: 10000},
	}}
	a := compareAccounts(measuredOf(320), []*spatev1.ServerAccount{frontend, vllmAccount(320)})
	if a.Server != "dynamo" || a.TTFT.Difference.Mean != 49 || *a.CachedShare != 0.1 || a.TPOT != nil || a.ITL != nil {
		t.Errorf("%+v", a)
	}
	if p := a.Parts; math.Abs(*p.Router-200) > 1e-9 || math.Abs(*p.Frontend-47) > 1e-9 || math.Abs(*p.Queue-30) > 1e-9 {
		t.Errorf("router %v, frontend %v, queue %v", *p.Router, *p.Frontend, *p.Queue)
	}
	apart := compareAccounts(measuredOf(320), []*spatev1.ServerAccount{frontend, vllmAccount(320), vllmAccount(320)})
	if p := apart.Parts; !apart.Comparable || p.Frontend == nil || p.Router != nil || p.Queue != nil ||
		p.Decode != nil {
		t.Errorf("prefill and decode apart: %+v", apart)
	}
}

// The cached share is known for each kind of server, with its names of metrics.
func TestCachedShareByCounters(t *testing.T) {
	for name, counters := range map[string]map[string]float64{
		"vllm": {"vllm:request_success_total": 320, "vllm:prefix_cache_queries_total": 1000,
			"vllm:prefix_cache_hits_total": 720},
		"vllm before": {"vllm:request_success_total": 320, "vllm:gpu_prefix_cache_queries_total": 1000,
			"vllm:gpu_prefix_cache_hits_total": 720},
		"llm-d": {"vllm:request_success": 320, "vllm:prefix_cache_queries": 1000, "vllm:prefix_cache_hits": 720},
		"sglang": {"sglang:num_requests_total": 320, "sglang:prompt_tokens_total": 1000,
			"sglang:cached_tokens_total": 720},
		"sglang, none": {"sglang:num_requests_total": 320, "sglang:prompt_tokens_total": 1000},
		"trtllm": {"trtllm_request_success_total": 320, "trtllm_prompt_tokens_total": 1000,
			"trtllm_prompt_cached_tokens_total": 720},
		"no cache": {"vllm:request_success_total": 320, "vllm:prefix_cache_queries_total": 0,
			"vllm:prefix_cache_hits_total": 0},
		"of others": {"vllm:request_success_total": 640, "vllm:prefix_cache_queries_total": 1000,
			"vllm:prefix_cache_hits_total": 720},
	} {
		account := &spatev1.ServerAccount{}
		for n, increase := range counters {
			account.Counters = append(account.Counters, &spatev1.ServerCounter{Name: n, Labels: `engine="0"`,
				Increase: increase / 2},
				&spatev1.ServerCounter{Name: n, Labels: `engine="1"`, Increase: increase / 2})
		}
		got := "n/a"
		if a := compareAccounts(Client{Measured: 320, Sent: 320},
			[]*spatev1.ServerAccount{account}); a.CachedShare != nil {
			got = fmt.Sprint(*a.CachedShare)
		}
		want := map[string]string{"sglang, none": "0", "no cache": "n/a", "of others": "n/a"}[name]
		if want == "" {
			want = "0.72"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// The result of an account can be encoded even if parts of the account are missing. Numbers that are not known are nil.
func TestServerAccountOfLittle(t *testing.T) {
	if a := compareAccounts(measuredOf(3), nil); a != nil {
		t.Errorf("of nothing: %+v", a)
	}
	if a := compareAccounts(measuredOf(3),
		[]*spatev1.ServerAccount{{Counters: []*spatev1.ServerCounter{{Name: "x", Increase: 1}}}}); a != nil {
		t.Errorf("of unknown servers: %+v", a)
	}
	histograms := vllmAccount(0).GetHistograms()
	for i, h := range histograms {
		h.Bounds, h.Counts = nil, nil
		if i%2 == 0 {
			h.Count, h.Sum = 4, 2
		}
	}
	for _, side := range []Client{{}, {Measured: 4, Sent: 4}, measuredOf(4)} {
		a := compareAccounts(side, []*spatev1.ServerAccount{{Histograms: histograms}})
		if _, err := json.Marshal(a); err != nil {
			t.Error(err)
		}
		if a.E2E != nil || a.Parts.Decode == nil != (a.Requests.Counted != side.Measured) || a.TTFT != nil &&
			a.TTFT.Server.P50 != nil {
			t.Errorf("%+v", a)
		}
	}
}
