package wire

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/clock"
)

// OpenTimes is how long a connection took to open.
type OpenTimes struct {
	Total time.Duration // DNS, TCP and TLS together
	DNS   time.Duration // 0: no name to look up
	TCP   time.Duration // with a proxy's CONNECT
	TLS   time.Duration // 0: no TLS
}

// phases records the times of the phases of opening a connection, which follow each other.
type phases struct {
	OpenTimes
	phase       string // current phase, in words
	start       clock.Instant
	ended       clock.Instant // end of the last phase
	lookupStart atomic.Int64  // start of the name lookup; 0: none
	lookupTime  atomic.Int64  // duration of the name lookup
}

// watch returns a context with which a name lookup records its times. package net may continue a lookup after its
// caller has returned, hence the atomics.
func (p *phases) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart: func(httptrace.DNSStartInfo) { p.lookupStart.Store(int64(clock.Now())) },
		DNSDone:  func(httptrace.DNSDoneInfo) { p.lookupTime.Store(int64(clock.Now()) - p.lookupStart.Load()) },
	})
}

// connected records the end of the name lookup and of TCP.
func (p *phases) connected() {
	p.ended, p.phase = clock.Now(), "the TLS handshake"
	p.Total, p.DNS = p.ended.Sub(p.start), time.Duration(p.lookupTime.Load())
	p.TCP = p.Total - p.DNS
}

// secured records the end of TLS.
func (p *phases) secured() {
	now := clock.Now()
	p.TLS = now.Sub(p.ended)
	p.Total = now.Sub(p.start)
}

// current returns the current phase, in words.
func (p *phases) current() string {
	if p.lookupStart.Load() != 0 && p.lookupTime.Load() == 0 {
		return "the name lookup"
	}
	return p.phase
}
