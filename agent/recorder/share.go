package recorder

import (
	"time"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// windowShare is the part of some requests that lies in one window. It is known when they end.
type windowShare struct{ tokens, chunks, requests uint64 }

// million is how many parts the time of a request is divided into.
const million = 1_000_000

// addShares distributes a completed request over the windows in which it was in flight. window is the page's window.
func (p *page) addShares(w windows, window uint32, o *stream.Observation) {
	p.shareFrames(w, window, o)
	p.shareTime(w, window, o)
}

// shareOf returns the page's share of a window, which is the page's window or an earlier one.
func (p *page) shareOf(window, of uint32) *windowShare {
	ago := int(window - min(of, window))
	for len(p.shares) <= ago {
		p.shares = append(p.shares, windowShare{})
	}
	return &p.shares[ago]
}

// shareFrames distributes the output tokens over the token frames: of n tokens in f frames, the first i frames have
// n*i/f.
func (p *page) shareFrames(w windows, window uint32, o *stream.Observation) {
	var to *windowShare
	end := clock.Instant(-1) // of the window of `to`
	frames, tokens := uint64(0), uint64(0)
	for _, f := range o.Frames {
		if at := f.At(); at >= end {
			number := w.of(at)
			to, end = p.shareOf(window, number), w.start.Add(time.Duration(number+1)*Length)
		}
		if f.Chunk() && o.Streamed() {
			to.chunks++
		}
		if f.Token() {
			frames++
			all := o.OutputTokens * frames / o.TokenFrames
			to.tokens += all - tokens
			tokens = all
		}
	}
}

// shareTime distributes the request itself over its duration.
func (p *page) shareTime(w windows, window uint32, o *stream.Observation) {
	whole, done := o.End.Sub(o.Start), uint64(0)
	for number := w.of(o.Start); done < million; number++ {
		parts := uint64(million)
		if passed := w.start.Add(time.Duration(number+1) * Length).Sub(o.Start); passed < whole {
			parts = uint64(float64(passed) / float64(whole) * million)
		}
		p.shareOf(window, number).requests += parts - done
		done = parts
	}
}

// sharesOf merges the shares of a window's pages, the earliest window first.
func sharesOf(pages []*page, window uint32) (shares []*spatev1.WindowShare) {
	var merged page
	for _, p := range pages {
		if p == nil {
			continue
		}
		for ago, s := range p.shares {
			into := merged.shareOf(window, window-uint32(ago))
			into.tokens += s.tokens
			into.chunks += s.chunks
			into.requests += s.requests
		}
	}
	for ago := len(merged.shares) - 1; ago >= 0; ago-- {
		if s := merged.shares[ago]; s != (windowShare{}) {
			shares = append(shares, &spatev1.WindowShare{
				Window: window - uint32(ago), OutputTokens: s.tokens, Chunks: s.chunks, MicroRequests: s.requests,
			})
		}
	}
	return shares
}
