package stream

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/clock"
)

// opened is how long a connection took to open.
type opened struct {
	whole time.Duration // DNS, TCP and TLS together
	dns   time.Duration // 0: no name to look up
	tcp   time.Duration // with a proxy's CONNECT
	tls   time.Duration // 0: no TLS
}

// phases records the times of the phases of opening a connection, which follow each other.
type phases struct {
	opened
	phase   string // current phase, in words
	begun   clock.Instant
	ended   clock.Instant // end of the last phase
	lookup  atomic.Int64  // start of the name lookup; 0: none
	lookups atomic.Int64  // duration of the name lookup
}

// watch returns a context with which a name lookup records its times. package net may continue a lookup after its
// caller has returned, hence the atomics.
func (p *phases) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart: func(httptrace.DNSStartInfo) { p.lookup.Store(int64(clock.Now())) },
		DNSDone:  func(httptrace.DNSDoneInfo) { p.lookups.Store(int64(clock.Now()) - p.lookup.Load()) },
	})
}

// connected records the end of the name lookup and of TCP.
func (p *phases) connected() {
	p.ended, p.phase = clock.Now(), "the TLS handshake"
	p.whole, p.dns = p.ended.Sub(p.begun), time.Duration(p.lookups.Load())
	p.tcp = p.whole - p.dns
}

// secured records the end of TLS.
func (p *phases) secured() {
	now := clock.Now()
	p.tls = now.Sub(p.ended)
	p.whole = now.Sub(p.begun)
}

// present returns the current phase, in words.
func (p *phases) present() string {
	if p.lookup.Load() != 0 && p.lookups.Load() == 0 {
		return "the name lookup"
	}
	return p.phase
}
