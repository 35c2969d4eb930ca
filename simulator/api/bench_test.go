package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spate-load/spate/simulator/config"
)

func BenchmarkEncoder(b *testing.B) {
	c := config.Default()
	c.Truth.Stamp = true
	e := NewWriter(&Request{frames: apis["chat"], Stream: true, model: "meta-llama/Llama-3.1-8B"}, &c,
		"run-7-0001234", 1_700_000_000)
	var buf []byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		buf = e.Seal(e.Tokens(buf[:0], i, i+1, ""))
	}
	b.SetBytes(int64(len(buf)))
}

// One op is one body of a long prompt. Hashing it for the prefix cache is the difference between cache=false and true.
func BenchmarkParseRequest(b *testing.B) {
	for form, prompt := range map[string]string{
		"ids":  "[" + strings.Repeat("1234,", 31999) + "1234]",
		"text": `"` + strings.Repeat("water ", 32000) + `"`,
	} {
		for _, cache := range []bool{false, true} {
			b.Run(fmt.Sprintf("32000-%s/cache=%v", form, cache), func(b *testing.B) {
				c := config.Default()
				if cache {
					c.Model.CacheBlocks = 1 << 20
				}
				body := []byte(`{"model":"m","prompt":` + prompt + `,"max_tokens":150,"stream":true}`)
				b.ReportAllocs()
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					if _, problem := parseRequest(completions, body, &c); problem != nil {
						b.Fatal(problem.Message)
					}
				}
			})
		}
	}
}

// One op is only the hashing of a prompt of 32,000 tokens, without decoding the body around it.
func BenchmarkPromptHash(b *testing.B) {
	for form, raw := range map[string][]byte{
		"ids":  []byte("[" + strings.Repeat("1234,", 31999) + "1234]"),
		"text": []byte(`"` + strings.Repeat("water ", 32000) + `"`),
	} {
		for _, size := range []int{0, 16} {
			b.Run(fmt.Sprintf("32000-%s/block=%d", form, size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					t := tokens{size: size}
					if problem := t.prompt(raw); problem != nil {
						b.Fatal(problem.Message)
					}
				}
			})
		}
	}
}
