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
	dns   time.Duration // 0: there was no name to look up
	tcp   time.Duration // and a proxy's CONNECT
	tls   time.Duration // 0: there is none
}

// phases take the times of a connection that is being opened, one after another.
type phases struct {
	opened
	phase   string // the one under way, in words
	begun   clock.Instant
	ended   clock.Instant // of the last phase
	lookup  atomic.Int64  // begin of the name lookup; 0: there is none
	lookups atomic.Int64  // its time
}

// watch has the lookup of a name tell its times. net/http may go on with a lookup after the caller has left.
func (p *phases) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart: func(httptrace.DNSStartInfo) { p.lookup.Store(int64(clock.Now())) },
		DNSDone:  func(httptrace.DNSDoneInfo) { p.lookups.Store(int64(clock.Now()) - p.lookup.Load()) },
	})
}

// connected ends the name lookup and TCP.
func (p *phases) connected() {
	p.ended, p.phase = clock.Now(), "of TLS"
	p.whole, p.dns = p.ended.Sub(p.begun), time.Duration(p.lookups.Load())
	p.tcp = p.whole - p.dns
}

// secured ends TLS.
func (p *phases) secured() {
	now := clock.Now()
	p.tls = now.Sub(p.ended)
	p.whole = now.Sub(p.begun)
}

// present is the phase under way, in words.
func (p *phases) present() string {
	if p.lookup.Load() != 0 && p.lookups.Load() == 0 {
		return "of the name lookup"
	}
	return p.phase
}
