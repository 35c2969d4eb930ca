// Package scrape reads the metrics of serving engines, in Prometheus' text format.
//
// It has two uses. An account is what counters and histograms grew by over a stage: the engine's own measurement of the
// requests that Spate measures from outside. It needs one reading before the stage and one after its last request.
// Samples are the values of gauges and counters, read each second: how many requests an engine holds, how many wait,
// how full its KV cache is.
//
// The package stays out of the load's way: it uses its own connections, and none of its work is on the path of a
// request. A Python engine writes its page on the thread that sends tokens, which takes some 10 ms, so a server is read
// each second only if the plan asks for that. If a server does not answer, only its own numbers are missing. No
// redirect is followed: only hosts that the agent may send load to are asked. The agent calls the package.
package scrape

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spate-load/spate/agent/allow"
	"github.com/spate-load/spate/agent/outbox"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/plans/naming"
	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const (
	// sampleInterval is the time between two readings of a source: one window.
	sampleInterval = time.Second
	// Timeout bounds the time of an answer. An answer within it is there when the window's snapshot is made.
	Timeout = 900 * time.Millisecond
	// maxPage is the maximum size of an answer. Engines with many labels have pages of some 100 KiB.
	maxPage = 4 << 20
)

// Source is an address at which a server is asked for its metrics.
type Source struct {
	// Number is the number of the source in the plan.
	Number uint32
	// URL is the address of its metrics.
	URL string
	// FallbackURL is another address to try if there are no metrics at URL. Empty: none.
	FallbackURL string
	// Names are the metrics that are sampled each second, the most important first; a "*" at the end stands for any
	// rest. Empty: none.
	Names []string
	// SamplesOnly reports whether the source has no account: it does not count requests.
	SamplesOnly bool
	// Header is sent with each request. It must hold secrets only if they are meant for this source. It may be nil.
	Header http.Header
	// OnTargetHost reports whether the target's endpoints are on this host. The source is then reached as they are, by
	// Config.TLS and Config.Proxy.
	OnTargetHost bool
}

// Config says what is read.
type Config struct {
	// Sources are all asked at once.
	Sources []Source
	// Optional makes Find drop sources without metrics.
	Optional bool
	// Account names the counters and histograms of the account, the most important first. If there are more series than
	// the limits allow, this order decides, for samples of a source with an account, too.
	Account []string
	// Model is the model that the target serves. Series of other models are excluded from the account.
	Model string
	// TLS says how the target's hosts are verified, and what certificate they are shown. Nil: they are verified by the
	// system's authorities, as all other hosts always are.
	TLS *tls.Config
	// Proxy is the proxy for the target's hosts, with user and password. Nil: none. Other hosts are always asked
	// directly.
	Proxy *url.URL
	// Pins are the addresses of hosts whose names must not be looked up again.
	Pins allow.Pins
	// Secret reports whether a text holds a secret. Lines of a page that do are skipped. Nil: there are no secrets.
	Secret func(text string) bool
	// OnFailure is called with the reason when a source cannot be read, and not again until it could be read. It may be
	// called concurrently.
	OnFailure func(url string, err error)
}

// Scraper reads the metrics of servers for one stage. Its methods may be called concurrently, except Find, which must
// come first.
type Scraper struct {
	config  Config
	account names
	target  *http.Client // for the target's hosts
	other   *http.Client // for all others
	maxPage int

	mu        sync.Mutex
	unsent    []batch // ordered by window for each source
	baselines map[uint32]reading
	attempts  map[uint32]attempts
	failing   map[uint32]bool // sources whose last reading failed
}

// batch holds the samples of one source in one window.
type batch struct {
	window  uint32
	samples []*spatev1.ServerSample
}

// New returns a Scraper. It does not ask any server yet.
func New(c Config) *Scraper {
	n := len(c.Sources)
	return &Scraper{
		config: c, account: newNames(c.Account), maxPage: maxPage,
		target: newClient(n, c.Pins, c.TLS, c.Proxy), other: newClient(n, c.Pins, nil, nil),
		baselines: map[uint32]reading{}, attempts: map[uint32]attempts{}, failing: map[uint32]bool{},
	}
}

// Close closes idle connections. No other method may be in progress.
func (s *Scraper) Close() {
	s.target.CloseIdleConnections()
	s.other.CloseIdleConnections()
}

// newClient returns a client without compression, because compressed answers have no bound, and without a proxy from
// the environment, as for the load. All sources may be on one host or behind one proxy; the connection limits are high
// enough that none waits for another. A connection that cannot be opened does not block either: opening is limited to
// the time of an answer, and the next window opens another.
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

// pinnedDial returns a dial function. It connects to pinned hosts at their first address that answers, and to all
// others as net does.
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

// Run samples each source that has names, at the start of each window, from window `from` on, counted from the stage's
// start, until ctx ends. It returns when no request is in progress any more, at once if no source has names. It must be
// called only once.
func (s *Scraper) Run(ctx context.Context, start clock.Instant, from uint32) {
	s.each(func(source Source) {
		if len(source.Names) > 0 {
			s.watch(ctx, source, start, from)
		}
	})
}

// each calls f for all sources at once and waits for all calls.
func (s *Scraper) each(f func(Source)) {
	var sources sync.WaitGroup
	for _, source := range s.config.Sources {
		sources.Go(func() { f(source) })
	}
	sources.Wait()
}

// eachAccount calls f for all sources with an account at once and waits for all calls.
func (s *Scraper) eachAccount(f func(Source)) {
	s.each(func(source Source) {
		if !source.SamplesOnly {
			f(source)
		}
	})
}

// watch samples one source, window by window. It skips windows that pass before an answer comes.
func (s *Scraper) watch(ctx context.Context, source Source, start clock.Instant, window uint32) {
	for clock.SleepUntil(ctx, start.Add(time.Duration(window)*sampleInterval)) {
		samples, err := s.sampleOnce(ctx, source)
		if ctx.Err() != nil {
			return
		}
		s.reportResult(source, err)
		s.mu.Lock()
		s.unsent = append(s.unsent, batch{window, samples}) // until the window's snapshot is made
		s.mu.Unlock()
		window = max(window, uint32(max(clock.Now().Sub(start), 0)/sampleInterval)) + 1
	}
}

// sampleOnce reads a source once. The samples are valid even with an error: they then report the failure.
func (s *Scraper) sampleOnce(ctx context.Context, source Source) ([]*spatev1.ServerSample, error) {
	wanted, order := newNames(source.Names), s.account
	if source.SamplesOnly {
		order = wanted
	}
	page, err := s.page(ctx, source)
	var samples []*spatev1.ServerSample
	var leftOut int
	if err == nil {
		samples, leftOut, err = parse(page, wanted, order)
	}
	up := &spatev1.ServerSample{Name: servermetrics.Up}
	if err == nil {
		up.Value = 1
	}
	samples = append(samples, up)
	if leftOut > 0 {
		samples = append(samples, &spatev1.ServerSample{Name: servermetrics.Dropped, Value: float64(leftOut)})
	}
	for _, sample := range samples {
		sample.Source = source.Number
	}
	return samples, err
}

// page fetches the page of a source.
func (s *Scraper) page(ctx context.Context, source Source) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, source.URL, nil)
	if err != nil {
		return nil, errors.New("the address is not a URL") // the original error would show the address
	}
	maps.Copy(q.Header, source.Header)
	q.Host = source.Header.Get("Host") // a Host in q.Header is not sent
	q.Header.Set("Accept", "text/plain; version=0.0.4")
	q.Header.Set("User-Agent", "spate")
	client := s.other
	if source.OnTargetHost {
		client = s.target
	}
	answer, err := client.Do(q)
	if err != nil {
		return nil, withoutAddress(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answered with status %d: check the address, and that the server's metrics are "+
			"enabled",
			answer.StatusCode)
	}
	page, err := io.ReadAll(io.LimitReader(answer.Body, int64(s.maxPage)+1))
	if len(page) > s.maxPage {
		return nil, fmt.Errorf("the answer is longer than %d bytes", s.maxPage)
	}
	return s.withoutSecrets(page), withoutAddress(err)
}

// withoutSecrets removes the lines of a page that hold secrets, which a label may do. It changes page in place.
func (s *Scraper) withoutSecrets(page []byte) []byte {
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

// withoutAddress removes the address from an error, because the caller names it, and the bytes of an answer that is not
// HTTP/1.1.
func withoutAddress(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v", Timeout)
	}
	// net/http has no type for it. The second text is of an answer that came before the request.
	if err != nil && (strings.Contains(err.Error(), "malformed HTTP") ||
		strings.Contains(err.Error(), "readLoopPeekFailLocked: %!w(<nil>)")) {
		return errors.New("the answer is not HTTP/1.1: give an address at which metrics are served over HTTP/1.1, " +
			"or https if the server wants TLS")
	}
	return err
}

// TakeSamples removes and returns the samples of all windows up to `through`: the newest value of each series, ordered
// by source, name and labels.
func (s *Scraper) TakeSamples(through uint32) (samples []*spatev1.ServerSample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := s.unsent[:0]
	for _, b := range s.unsent {
		if b.window > through {
			rest = append(rest, b)
			continue
		}
		samples = outbox.MergeServerSamples(samples, b.samples)
	}
	clear(s.unsent[len(rest):])
	s.unsent = rest
	return samples
}

// SameHost reports whether two addresses have the same scheme, host and port, so that the secrets of one may be sent to
// the other.
func SameHost(a, b string) bool {
	u, err1 := url.Parse(a)
	v, err2 := url.Parse(b)
	return err1 == nil && err2 == nil && u.Scheme == v.Scheme && naming.Server(a) == naming.Server(b)
}
