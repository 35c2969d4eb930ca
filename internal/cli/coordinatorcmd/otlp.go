package coordinatorcmd

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/spate-load/spate/aggregate/sink/delivery"
	"github.com/spate-load/spate/aggregate/sink/otlp"
	"github.com/spate-load/spate/internal/cli/command"
)

// OTLP says to which collector of OpenTelemetry merged results are sent.
type OTLP struct {
	Server `with:"KIND=otlp|ENV=OTLP|SENDS=send merged results to the OpenTelemetry collector with this OTLP/HTTP"`
	// Headers are NAME=VALUE. A value is a secret or a reference to one.
	Headers []string `flag:"otlp-header" help:"<NAME=VALUE> of a header for the collector; the value may be env:NAME or file:PATH"`
}

// Kind returns "otlp".
func (o *OTLP) Kind() string { return otlp.Kind }

// Validate returns an error if settings do not go together.
func (o *OTLP) Validate() error {
	if o.URL == "" && len(o.Headers) > 0 {
		return errors.New("--otlp-header needs --otlp-url")
	}
	for i, header := range o.Headers {
		if name, _, ok := strings.Cut(header, "="); !ok || name == "" {
			return fmt.Errorf("--otlp-header: header %d: want NAME=VALUE", i+1) // the text may be a secret
		}
	}
	return o.validate(otlp.Kind)
}

// header returns the resolved headers.
func (o *OTLP) header() (http.Header, error) {
	header := http.Header{}
	for _, h := range o.Headers {
		name, reference, _ := strings.Cut(h, "=")
		value, err := command.Secret(reference)
		if err != nil {
			return nil, fmt.Errorf("--otlp-header %s: %w", name, err)
		}
		header[name] = append(header[name], value)
	}
	return header, nil
}

// Open resolves settings that Validate has checked. The caller closes the database.
func (o *OTLP) Open(logger *slog.Logger) (delivery.Database, error) {
	token, check, err := o.resolve(otlp.Kind, logger)
	if err != nil {
		return nil, err
	}
	header, err := o.header()
	if err != nil {
		return nil, err
	}
	return otlp.New(otlp.Config{URL: o.URL, Token: token, Header: header, TLS: check})
}
