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
			"--goodput ttft:100 (in a plan: slo)"},
		{"vllm bench serve --burstiness 1 --dataset-name random --dataset-path 'a b'\\''c'\"d\\\"e\" --extra-body '{\"a\": 1}' --header K=v:w",
			"--api=completions --body=a=1 --concurrency=1000 --header=K=v:w --isl=1024 --osl=128 --requests=1000 --target=http://127.0.0.1:8000",
			"--dataset-path a b'cd\"e (in a plan: workloads)"},
		{"guidellm benchmark run --backend kind=openai_http,target=http://h:1,model=m --profile kind=concurrent,streams=4 " +
			"--data kind=synthetic_text,prompt_tokens=256,output_tokens=8 --constraint kind=max_requests,count=10 --outputs x",
			"--api=chat --concurrency=4 --isl=256 --model=m --osl=8 --requests=10 --target=http://h:1", ""},
		{"guidellm benchmark --target http://h:1 --rate-type concurrent --rate 8 --max-seconds 30 --data prompt_tokens=1,output_tokens=2",
			"--api=chat --concurrency=8 --duration=30s --isl=1 --osl=2 --target=http://h:1", ""},
		{"guidellm benchmark --target http://h:1 --rate-type sweep", "--api=chat --target=http://h:1",
			"--profile sweep (in a plan: loads[].frontier)"},
		{"aiperf profile -m m -u h:1 --streaming --concurrency 2 --request-count 9 --osl 5 --extra-inputs ignore_eos:true -H 'A: b' --prefix-len 3",
			"--api=chat --body=ignore_eos=true --concurrency=2 --header=A=b --isl=550 --model=m --osl=5 --requests=9 --stream=true --target=h:1",
			"--prefix-len 3"},
	} {
		args, left, err := foreign.Translate(c.line)
		if got := strings.Join(args, " "); err != nil || got != c.args || strings.Join(left, "; ") != c.left {
			t.Errorf("%s\n  %s, left %q, %v, want\n  %s, %q", c.line, got, left, err, c.args, c.left)
		}
	}
	for _, line := range []string{"", "wrk -c 1", "vllm serve m"} {
		if _, _, err := foreign.Translate(line); err == nil {
			t.Errorf("%q is translated", line)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{"base-url": "target", "num_prompts": "requests", "vus": "concurrency",
		"backend": "", "goodput": "", "max-seconds": "", "target": ""} {
		if got := foreign.Alias(name); got != want {
			t.Errorf("Alias(%q) = %q", name, got)
		}
	}
	for name, want := range map[string]string{"goodput": "slo in a plan", "max-seconds": "--duration=TIME", "none": ""} {
		if got := foreign.Meant(name); got != want {
			t.Errorf("Meant(%q) = %q", name, got)
		}
	}
}
