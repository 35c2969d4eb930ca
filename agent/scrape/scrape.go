// Package scrape reads the metrics of serving engines, in Prometheus' text form.
//
// It has two uses. An account is what counters and histograms grew by over a stage: the engine's own measure of the
// requests that Spate measures from outside. It takes a reading before the stage and one after its last request.
// Samples are the values of gauges and counters, read each second: how many requests an engine holds, how many wait,
// how full its KV cache is.
//
// It keeps away from the load: connections of its own, nothing on the way of a request. An engine in Python writes its
// page on the thread that sends tokens, some 10 ms of it, so nobody is read each second who was not asked for. A server
// that does not answer costs its own numbers and nothing else. No redirect is followed: only hosts that the agent may
// send load to are asked. The agent calls it.
package scrape

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spate-load/spate/agent/allow"
	"github.com/spate-load/spate/agent/merge"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const (
	// every is the time between two scrapes of a source: one window.
	every = time.Second
	// Timeout is the longest that an answer may take. What came within it is there when the window's snapshot is made.
	Timeout = 900 * time.Millisecond
	// maxPage is the longest answer. Engines of many labels have pages of some 100 KiB.
	maxPage = 4 << 20
)

// Source is an address at which a server is asked for its metrics.
type Source struct {
	// Number of the source in the plan.
	Number uint32
	// URL of its metrics.
	URL string
	// Else is where the page is looked for if there is none at URL. Empty: nowhere.
	Else string
	// Header is sent with each request: secrets only to whom they are meant for. May be nil.
	Header http.Header
	// OfTarget says that the target's endpoints are on this host: it is reached as they are, by Config.TLS and
	// Config.Proxy.
	OfTarget bool
}

// Config says what is read.
type Config struct {
	// Sources are asked all at once.
	Sources []Source
	// Optional sources are forgotten by Find if they have no metrics.
	Optional bool
	// Names of the metrics that samples are taken of; "*" at an end stands for any rest.
	Names []string
	// Account names the counters and histograms of the account, those that matter most first. Where there are more than
	// the limits allow, they decide for samples, too.
	Account []string
	// Model that the target serves. Of metrics that name models, those of others are no part of the account.
	Model string
	// TLS is how the target's hosts are checked, and what is shown to them. Nil: by the system's authorities. So are
	// all other hosts.
	TLS *tls.Config
	// Proxy is what the target's hosts are asked through, with its user and password. Nil: none. All others are asked
	// directly.
	Proxy *url.URL
	// Pins are the addresses of hosts whose names are not to be looked up again.
	Pins allow.Pins
	// Secret reports whether a text holds a secret. Lines of a page that do are passed over. Nil: there is none.
	Secret func(text string) bool
	// Complain is told why a source cannot be read, once until it can be read again. It may be called concurrently.
	Complain func(url string, err error)
}

// Scraper reads the metrics of servers for one stage. Its methods may be called concurrently, but for Find, which comes
// first.
type Scraper struct {
	config  Config
	names   names
	account names
	target  *http.Client // for the target's hosts
	other   *http.Client // for all others
	maxPage int

	mu      sync.Mutex
	unsent  []batch // in the order of their windows, as far as one source goes
	bases   map[uint32]reading
	tries   map[uint32]tries
	failing map[uint32]bool // sources that could not be read the last time
}

// batch is what came of one source in one window.
type batch struct {
	window  uint32
	samples []*spatev1.ServerSample
}

// New returns a Scraper that asks nobody yet.
func New(c Config) *Scraper {
	n := len(c.Sources)
	return &Scraper{
		config: c, names: newNames(c.Names), account: newNames(c.Account), maxPage: maxPage,
		target: newClient(n, c.Pins, c.TLS, c.Proxy), other: newClient(n, c.Pins, nil, nil),
		bases: map[uint32]reading{}, tries: map[uint32]tries{}, failing: map[uint32]bool{},
	}
}

// Close closes connections that lie idle. Nothing may be under way.
func (s *Scraper) Close() {
	s.target.CloseIdleConnections()
	s.other.CloseIdleConnections()
}

// newClient makes a client without compression, whose answers have no bound, and without a proxy of the environment's,
// as for the load. All sources may be of one host, and all behind one proxy: none waits for another's connection. Nor
// does one wait for a connection that never comes to be: opening one may take no longer than an answer, and the next
// window opens another.
func newClient(sources int, pins allow.Pins, config *tls.Config, proxy *url.URL) *http.Client {
	transport := &http.Transport{
		DialContext: pinnedDial(pins), TLSHandshakeTimeout: Timeout,
		TLSClientConfig: config, DisableCompression: true, MaxIdleConnsPerHost: sources, MaxConnsPerHost: 2 * sources,
		MaxResponseHeaderBytes: 64 << 10,
	}
	if proxy != nil {
		transport.Proxy = http.ProxyURL(proxy)
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// pinnedDial opens connections to hosts that are pinned at their first address that answers, and to all others as net
// does.
func pinnedDial(pins allow.Pins) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: Timeout}
	return func(ctx context.Context, network, addr string) (c net.Conn, err error) {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		addresses, pinned := pins.Of(host)
		if !pinned {
			return dialer.DialContext(ctx, network, addr)
		}
		for _, a := range addresses {
			if c, err = dialer.DialContext(ctx, network, net.JoinHostPort(a.String(), port)); err == nil {
				return c, nil
			}
		}
		return nil, err
	}
}

// Run takes samples of each source at the start of each window from one on, counted from the stage's start, until ctx
// ends. It returns when nothing of it is under way any more, and is called once.
func (s *Scraper) Run(ctx context.Context, start clock.Instant, from uint32) {
	s.each(func(source Source) { s.watch(ctx, source, start, from) })
}

// each calls a function for all sources at once and waits for them.
func (s *Scraper) each(f func(Source)) {
	var sources sync.WaitGroup
	for _, source := range s.config.Sources {
		sources.Go(func() { f(source) })
	}
	sources.Wait()
}

// clientOf is who asks a source.
func (s *Scraper) clientOf(source Source) *http.Client {
	if source.OfTarget {
		return s.target
	}
	return s.other
}

// watch asks one source, window by window. Windows that passed before an answer came are left out.
func (s *Scraper) watch(ctx context.Context, source Source, start clock.Instant, window uint32) {
	for wait(ctx, start.Add(time.Duration(window)*every)) {
		samples, err := s.ask(ctx, source)
		if ctx.Err() != nil {
			return
		}
		s.complain(source, err)
		s.keep(window, samples)
		window = max(window, uint32(max(clock.Now().Sub(start), 0)/every)) + 1
	}
}

// wait blocks until an instant and reports whether ctx still goes on.
func wait(ctx context.Context, until clock.Instant) bool {
	timer := time.NewTimer(clock.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// ask reads a source once. The samples are right even if there is an error: they say that it failed.
func (s *Scraper) ask(ctx context.Context, source Source) ([]*spatev1.ServerSample, error) {
	page, err := s.page(ctx, source)
	var samples []*spatev1.ServerSample
	var leftOut int
	if err == nil {
		samples, leftOut, err = parse(page, s.names, s.account)
	}
	up := &spatev1.ServerSample{Name: plans.ServerUp}
	if err == nil {
		up.Value = 1
	}
	samples = append(samples, up)
	if leftOut > 0 {
		samples = append(samples, &spatev1.ServerSample{Name: plans.ServerLeftOut, Value: float64(leftOut)})
	}
	for _, sample := range samples {
		sample.Source = source.Number
	}
	return samples, err
}

// page fetches a source's page.
func (s *Scraper) page(ctx context.Context, source Source) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, source.URL, nil)
	if err != nil {
		return nil, errors.New("the address is no URL") // its own error would show what it holds
	}
	for name, values := range source.Header {
		q.Header[name] = values
	}
	q.Host = source.Header.Get("Host") // what is in Header is not sent
	q.Header.Set("Accept", "text/plain; version=0.0.4")
	q.Header.Set("User-Agent", "spate")
	answer, err := s.clientOf(source).Do(q)
	if err != nil {
		return nil, plain(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers with status %d: check the address, and that the server has its metrics switched on", answer.StatusCode)
	}
	page, err := io.ReadAll(io.LimitReader(answer.Body, int64(s.maxPage)+1))
	if len(page) > s.maxPage {
		return nil, fmt.Errorf("the answer is longer than %d bytes", s.maxPage)
	}
	return s.open(page), plain(err)
}

// open is a page without the lines that hold secrets, as a label may.
func (s *Scraper) open(page []byte) []byte {
	if s.config.Secret == nil {
		return page
	}
	kept := page[:0]
	for line := range bytes.Lines(page) {
		if !s.config.Secret(string(line)) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// plain is an error without the address, which the caller names.
func plain(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v", Timeout)
	}
	return err
}

// keep keeps what came of a source in a window until the window's snapshot is made.
func (s *Scraper) keep(window uint32, samples []*spatev1.ServerSample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsent = append(s.unsent, batch{window, samples})
}

// Take returns what came in windows up to one and was not taken yet, of each series the newest value, in the order of
// sources, names and labels.
func (s *Scraper) Take(through uint32) (samples []*spatev1.ServerSample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := s.unsent[:0]
	for _, b := range s.unsent {
		if b.window > through {
			rest = append(rest, b)
			continue
		}
		samples = merge.ServerSamples(samples, b.samples)
	}
	clear(s.unsent[len(rest):])
	s.unsent = rest
	return samples
}

// SameHost reports whether two addresses are of one host and port, so that what is secret to one is no news to the
// other.
func SameHost(a, b string) bool {
	u, err1 := url.Parse(a)
	v, err2 := url.Parse(b)
	return err1 == nil && err2 == nil && u.Scheme == v.Scheme && strings.EqualFold(u.Hostname(), v.Hostname()) &&
		portOf(u) == portOf(v)
}

// portOf is the port of an address, its scheme's if it names none.
func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}
