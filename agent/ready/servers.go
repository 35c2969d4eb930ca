package ready

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spate-load/spate/agent/scrape"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/plans/servermetrics"
)

// tensorRTPath is where TensorRT-LLM has its metrics in Prometheus' format; its /metrics returns JSON.
const tensorRTPath = "/prometheus/metrics"

// watchServers prepares to read the metrics of the servers with these numbers. It leaves out servers that the agent may
// not ask, and servers without metrics unless the plan says that they have some. It notes both and does not fail: the
// load does not need metrics. It blocks for at most 2 s.
func (s *Stage) watchServers(ctx context.Context, numbers []uint32, config stream.Config, res *Resources) error {
	sources, err := s.sources(ctx, numbers, res.Limits)
	if err != nil || len(sources) == 0 {
		return err
	}
	for i := range sources {
		s.setAccess(&sources[i], config)
	}
	trust, proxy, err := config.Connection.TLSAndProxy()
	if err != nil {
		return fmt.Errorf("target %s: %w", s.Target().GetName(), err)
	}
	metrics := s.Target().GetServerMetrics()
	s.Servers = scrape.New(scrape.Config{
		Sources: sources, Optional: !servermetrics.Asked(s.Target()), Account: servermetrics.Account(s.Target()),
		Model: s.Target().GetModel(), TLS: trust, Proxy: proxy, Pins: s.pins,
		Secret: s.Client.HoldsSecret,
		OnFailure: func(url string, err error) {
			res.Logger.Warn("server metrics cannot be read; the stage continues without them", "url", url, "error", err)
		},
	})
	if len(metrics.GetUrls()) > 0 {
		return nil
	}
	missing := s.Servers.Find(ctx)
	if servermetrics.Asked(s.Target()) {
		return nil // failures are reported and counted at each reading
	}
	s.noteMissing(missing)
	if len(missing) == len(sources) {
		s.Servers.Close()
		s.Servers = nil
	}
	return nil
}

// sources returns the sources with the given numbers, without those that the agent may not ask.
func (s *Stage) sources(ctx context.Context, numbers []uint32, l Limits) (sources []scrape.Source, err error) {
	urls := servermetrics.Sources(s.Target())
	for _, number := range numbers {
		if int(number) >= len(urls) {
			return nil, fmt.Errorf("server metrics: source %d of %d does not exist: coordinator and agent have "+
				"different plans",
				number, len(urls))
		}
		source := scrape.Source{Number: number, URL: urls[number]}
		metrics := s.Target().GetServerMetrics()
		switch {
		case servermetrics.IsGPUSource(s.Target(), number):
			source.SamplesOnly, source.Names = true, servermetrics.GPUMetrics()
		case servermetrics.EachSecond(s.Target()):
			source.Names = metrics.GetNames()
		}
		if len(metrics.GetUrls()) == 0 && !source.SamplesOnly {
			source.FallbackURL = strings.TrimSuffix(source.URL, "/metrics") + tensorRTPath
		}
		if err := s.mayScrape(ctx, source.URL, l); err != nil {
			s.note("The metrics at %s are not read: %v.", source.URL, err)
			continue
		}
		sources = append(sources, source)
	}
	return sources, nil
}

// noteMissing adds one note about all servers without metrics.
func (s *Stage) noteMissing(missing []scrape.Missing) {
	if len(missing) == 0 {
		return
	}
	others := ""
	if n := len(missing) - 1; n > 0 {
		others = fmt.Sprintf(" and %d more", n)
	}
	s.note("No server metrics at %s%s, so results lack the server's own counts. If the server has metrics at another "+
		"address, set server_metrics: {urls: [...]}. Why: %v.", missing[0].URL, others, missing[0].Err)
}

// mayScrape returns an error if the agent may not ask a server for its metrics.
func (s *Stage) mayScrape(ctx context.Context, source string, l Limits) error {
	throughProxy := s.Target().GetConnection().GetProxy() != "" && servermetrics.OnEndpointHost(s.Target(), source)
	return l.check(ctx, source, throughProxy, s.pins)
}

// note adds a note about this agent.
func (s *Stage) note(format string, args ...any) {
	s.Preparation.Notes = append(s.Preparation.Notes, fmt.Sprintf(format, args...))
}

// setAccess sets how a source is asked. The target's TLS and proxy settings are used for the machines of its endpoints.
// Its key and headers are sent only to the endpoints' own hosts and ports.
func (s *Stage) setAccess(source *scrape.Source, config stream.Config) {
	source.OnTargetHost = servermetrics.OnEndpointHost(s.Target(), source.URL)
	if !slices.ContainsFunc(s.Target().GetEndpoints(),
		func(endpoint string) bool { return scrape.SameHost(endpoint, source.URL) }) {
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
