package stream

import (
	"math"
	"strings"
	"testing"

	"github.com/spate-load/spate/agent/stream/socket"
)

// Answers with replacement characters, also escaped ones, or with one token over and over are garbled.
func TestGarbled(t *testing.T) {
	for what, c := range map[string]struct {
		tokens []string
		want   bool
	}{
		"sound":            {strings.Fields("the quick brown fox jumps"), false},
		"replaced":         {[]string{" a", "\uFFFD"}, true},
		"escaped":          {[]string{" a", `\ufffd`}, true},
		"escaped, capital": {[]string{" a", `\uFFFD`}, true},
		"long":             {[]string{"a long piece of an answer \uFFFD"}, true},
		"another escape":   {[]string{` \u00e9`, `\n`}, false},
		"repeated":         {strings.Split(strings.Repeat(" ha,", sameTokens)+" ho", ","), true},
		"less repeated":    {strings.Split(strings.Repeat(" ha,", sameTokens-1)+" ho", ","), false},
		"alike at first":   {strings.Split(strings.Repeat(" goodness1, goodness22,", sameTokens), ","), false},
	} {
		var o Observation
		x := new(exchange)
		x.reset(newTestClient(t, Config{Endpoints: []string{"http://h"}}), Request{}, &o)
		x.room = room{frames: math.MaxInt, bytes: math.MaxInt64, free: math.MaxInt}
		for i, token := range c.tokens {
			x.Consume([]byte(tokenFrame(token)), socket.Reading{At: 1, Number: uint64(i + 1)})
		}
		if o.Garbled() != c.want {
			t.Errorf("%s: %v, %+v", what, !c.want, o.SameTokens)
		}
	}
}
