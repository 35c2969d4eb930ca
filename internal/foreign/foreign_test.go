package foreign_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/spate-load/spate/internal/cli/runcmd"
	"github.com/spate-load/spate/internal/foreign"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Every flag and every field of the table exists.
func TestTable(t *testing.T) {
	flags := runcmd.NewRun("").Flags()
	foreign.Settings(func(args, field string) {
		for arg := range strings.FieldsSeq(args) {
			name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
			if flags.Lookup(name) == nil {
				t.Errorf("there is no flag %s", arg)
			}
		}
		message := (&spatev1.Plan{}).ProtoReflect().Descriptor()
		for name := range strings.SplitSeq(field, ".") {
			f := message.Fields().ByName(protoreflect.Name(strings.TrimSuffix(name, "[]")))
			if f == nil {
				t.Errorf("%s: a plan has no field %s", field, name)
				return
			}
			message = f.Message()
		}
	})
}

func TestTranslate(t *testing.T) {
	for _, c := range []struct{ line, args, left string }{
		{"vllm bench serve --model m", "--api=completions --concurrency=1000 --isl=1024 --model=m --osl=128 --requests=1000 --target=http://127.0.0.1:8000", ""},
		{`HF_TOKEN=x vllm bench serve \
  --backend openai-chat --endpoint /v1/chat/completions --host h --port 81 --max-concurrency 4 --num_prompts=20 --seed 3`,
			"--api=chat --concurrency=4 --isl=1024 --osl=128 --requests=20 --seed=3 --target=http://h:81", ""},
		{"vllm bench serve --request-rate 5 --max-concurrency 9 --burstiness 0.5 --ignore-eos --save-result --goodput ttft:100",
			"--api=completions --isl=1024 --max-in-flight=9 --osl=128 --rate=5 --requests=1000 --set=loads[0].arrival=gamma " +
				"--set=loads[0].burstiness=0.5 --set=targets[0].exact_output=always --target=http://127.0.0.1:8000",
			"--save-result; --goodput ttft:100 (in a plan: slo)"},
		{"vllm bench serve --burstiness 1 --dataset-name random --dataset-path 'a b'\\''c'\"d\\\"e\" --extra-body '{\"a\": 1}' --header K=v:w",
			"--api=completions --body=a=1 --concurrency=1000 --header=K=v:w --isl=1024 --osl=128 --requests=1000 --target=http://127.0.0.1:8000",
			"--dataset-path a b'cd\"e (in a plan: workloads)"},
		{"guidellm benchmark run --backend kind=openai_http,target=http://h:1,model=m --profile kind=concurrent,streams=4 " +
			"--data kind=synthetic_text,prompt_tokens=256,output_tokens=8 --constraint kind=max_requests,count=10 --outputs x",
			"--api=chat --concurrency=4 --isl=256 --model=m --osl=8 --requests=10 --target=http://h:1", "--outputs x"},
		{"guidellm benchmark --target http://h:1 --rate-type concurrent --rate 8 --max-seconds 30 --data prompt_tokens=1,output_tokens=2",
			"--api=chat --concurrency=8 --duration=30s --isl=1 --osl=2 --target=http://h:1", ""},
		{"guidellm benchmark --target http://h:1 --rate-type sweep", "--api=chat --target=http://h:1",
			"--profile sweep"},
		{`guidellm benchmark --target h --rate-type poisson --rate 2 --data '{"prompt_tokens":50,"output_tokens":1000000}'`,
			"--api=chat --arrival=poisson --isl=50 --osl=1000000 --rate=2 --target=h", ""},
		{"vllm bench serve --dataset-name sharegpt --dataset-path 's t.json' --sharegpt-output-len 9 --temperature 0 --ignore-eos --host h",
			"--api=completions --body=temperature=0 --concurrency=1000 --requests=1000 " +
				`--set=workloads[0]={sharegpt: {path: "s t.json", osl: 9}} --set=targets[0].exact_output=always --target=h`, ""},
		{"aiperf profile -m m -u h:1 --streaming --concurrency 2 --request-count 9 --osl 5 --extra-inputs ignore_eos:true -H 'A: b' --ui none",
			"--api=chat --body=ignore_eos=true --concurrency=2 --header=A=b --isl=550 --model=m --osl=5 --requests=9 --stream=true --target=h:1",
			"--ui none"},
		{"aiperf profile --streaming -m m", "--api=chat --concurrency=1 --isl=550 --model=m --stream=true --target=localhost:8000", ""},
	} {
		args, left, err := foreign.Translate(c.line)
		if got := strings.Join(args, " "); err != nil || got != c.args || strings.Join(left, "; ") != c.left {
			t.Errorf("%s\n  %s, left %q, %v, want\n  %s, %q", c.line, got, left, err, c.args, c.left)
		}
	}
	for line, want := range map[string]string{
		"": "docs/from-other-tools.md", "wrk -c 1": "want a command line", "vllm serve m": "aiperf profile",
		"vllm bench serve --model 'm":                       "a quote is not closed",
		"vllm bench serve --foo 3":                          "without --foo another test would run",
		"vllm bench serve > log":                            "without > another test",
		"vllm bench serve --dataset-name sonnet":            "in Spate it is workloads in a plan",
		"vllm bench serve --dataset-name sharegpt":          "without --dataset-name",
		"vllm bench serve --dataset-path s.json":            "without --dataset-name",
		"vllm bench serve --lora-modules a":                 "workloads[].mix in a plan",
		"vllm bench serve --random-prefix-len 9":            "workloads[].random.prefix in a plan",
		"vllm bench serve --backend deepspeed":              "in Spate it is --api=VALUE",
		"vllm bench serve --extra-body {":                   "in Spate it is --body=VALUE",
		"guidellm benchmark --data prompts.jsonl":           "in Spate it is workloads in a plan",
		"guidellm benchmark --data prompt_tokens=1,turns=2": "without --turns",
	} {
		if _, _, err := foreign.Translate(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", line, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{"base-url": "target", "num_prompts": "requests", "vus": "concurrency",
		"backend": "", "goodput": "", "max-seconds": "", "target": "", "host": "", "port": ""} {
		if got := foreign.Alias(name); got != want {
			t.Errorf("Alias(%q) = %q", name, got)
		}
	}
	for name, want := range map[string]string{"goodput": "slo in a plan (https://github.com/spate-load/spate/blob/main/docs/from-other-tools.md)", "max-seconds": "--duration=TIME", "none": ""} {
		if got := foreign.Meant(name); got != want {
			t.Errorf("Meant(%q) = %q", name, got)
		}
	}
}
