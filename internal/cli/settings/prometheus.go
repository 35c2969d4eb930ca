package settings

import (
	"errors"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/spate-load/spate/aggregate/sink/delivery"
	"github.com/spate-load/spate/aggregate/sink/prometheus"
)

// Prometheus says to which server merged results are written by remote write.
type Prometheus struct {
	Server
	Tenant string
}

// Kind returns "prometheus".
func (p *Prometheus) Kind() string { return prometheus.Kind }

// AddFlags adds the --prometheus-* flags.
func (p *Prometheus) AddFlags(flags *pflag.FlagSet) {
	p.addFlags(flags, prometheus.Kind,
		"write merged results to the Mimir, VictoriaMetrics or Prometheus with this remote write `URL`")
	flags.StringVar(&p.Tenant, "prometheus-tenant", "", "tenant of a Mimir that has several (X-Scope-OrgID)")
}

// Validate returns an error if settings do not go together.
func (p *Prometheus) Validate() error {
	if p.URL == "" && p.Tenant != "" {
		return errors.New("--prometheus-tenant needs --prometheus-url")
	}
	return p.validate(prometheus.Kind)
}

// Open resolves settings that Validate has checked. The caller closes the database.
func (p *Prometheus) Open(logger *slog.Logger) (delivery.Database, error) {
	token, check, err := p.resolve(prometheus.Kind, logger)
	if err != nil {
		return nil, err
	}
	return prometheus.New(prometheus.Config{URL: p.URL, Token: token, Tenant: p.Tenant, TLS: check})
}
