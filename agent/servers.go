package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/agent/scrape"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// watchServers makes ready to read the metrics of servers that fell to this agent. Those that it may not ask are left out, and it says so:
// the load does not need them.
func (s *share) watchServers(a *spatev1.Assign, k kit) error {
	urls := plans.ServerSources(s.target())
	var sources []scrape.Source
	for _, number := range a.GetServerSources() {
		if int(number) >= len(urls) {
			return fmt.Errorf("server metrics: source %d of %d: coordinator and agent do not speak of the same plan", number, len(urls))
		}
		address := urls[number]
		if u, err := url.Parse(address); err != nil || !k.limits.mayAsk(u) {
			s.note("The metrics at %s are not read: the configuration of the agent that they fell to allows %s only.",
				address, strings.Join(k.limits.targets, ", "))
			continue
		}
		sources = append(sources, scrape.Source{Number: number, URL: address})
	}
	if len(sources) == 0 {
		return nil
	}
	config, err := s.clientConfig(a.GetSecrets())
	if err != nil {
		return err
	}
	for i := range sources {
		s.introduce(&sources[i], config)
	}
	trust, proxy, err := config.Connection.Beside()
	if err != nil {
		return fmt.Errorf("target %s: connection: %w", s.target().GetName(), err)
	}
	s.servers = scrape.New(scrape.Config{
		Sources: sources, Names: s.target().GetServerMetrics().GetNames(), TLS: trust, Proxy: proxy, Complain: complainer(k.logger),
	})
	return nil
}

// complainer says why a server cannot be read.
func complainer(logger *slog.Logger) func(url string, err error) {
	return func(url string, err error) {
		logger.Warn("a server's metrics cannot be read; the stage goes on without them", "url", url, "error", err)
	}
}

// mayAsk says whether the agent may send anything to an address.
func (l limits) mayAsk(u *url.URL) bool { return len(l.targets) == 0 || l.allows(u) }

// note tells people something beside what was found out about the target, which other stages share.
func (s *share) note(format string, args ...any) {
	s.found.Preparation = proto.CloneOf(s.found.Preparation)
	s.found.Preparation.Notes = append(s.found.Preparation.Notes, fmt.Sprintf(format, args...))
}

// introduce says how a source is asked. The target's connection is for the machines of its endpoints; its key and headers are for those hosts
// and ports, and for nobody else.
func (s *share) introduce(source *scrape.Source, config stream.Config) {
	source.OfTarget = plans.BesideEndpoint(s.target(), source.URL)
	if !slices.ContainsFunc(s.target().GetEndpoints(), func(endpoint string) bool { return scrape.SameHost(endpoint, source.URL) }) {
		return
	}
	source.Header = http.Header{}
	if config.APIKey != "" {
		source.Header.Set("Authorization", "Bearer "+config.APIKey)
	}
	for name, value := range config.Headers {
		source.Header.Set(name, value)
	}
}

// scrape reads servers' metrics until the function it returns is called, which waits for the end of it.
func (l *load) scrape() (end func()) {
	if l.servers == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() { l.servers.Run(ctx, l.start, 0) })
	return func() { cancel(); reading.Wait() }
}
