// Package prometheus writes rows to servers with Prometheus' remote write API, version 1: Mimir, VictoriaMetrics,
// Prometheus and others.
//
// Each field of a row is a sample of its own series, with the row's own time. Samples of a series are in order during a
// run, except those that are written again after a restart or from the ledger. A server that has a sample keeps it: a
// value that is written later for the same series and time does not replace it.
package prometheus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/klauspost/compress/snappy"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/delivery"
)

// Kind is the kind of this database.
const Kind = "prometheus"

// example is a URL in error messages.
const example = "http://localhost:9090/api/v1/write"

// Config configures which server to write to.
type Config struct {
	// URL is the whole URL of the server's remote write API, http or https: "http://localhost:9090/api/v1/write". It must
	// not contain a user or password.
	URL string
	// Token is the token itself; references are resolved by the caller. "user:password" is sent as Basic, a token that
	// starts with a scheme unchanged, and any other as Bearer. May be empty.
	Token string
	// Tenant is sent in the header X-Scope-OrgID, which Mimir requires if it has several tenants. May be empty.
	Tenant string
	// TLS configures how an https server's certificate is verified. Nil: by the machine's certificate authorities.
	TLS *tls.Config
	// Timeout bounds one request. 0: delivery.DefaultTimeout.
	Timeout time.Duration
}

// Validate returns an error for each mistake, with what to do about it.
func (c Config) Validate() error {
	var mistakes []error
	for _, err := range []error{delivery.CheckURL(c.URL, example), delivery.CheckToken(c.Token)} {
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("prometheus: %w", err))
		}
	}
	if c.Timeout < 0 {
		mistakes = append(mistakes, fmt.Errorf("prometheus: the timeout is %v: give a positive time", c.Timeout))
	}
	return errors.Join(mistakes...)
}

// Database is a server that takes remote writes.
type Database struct {
	config   Config
	endpoint *delivery.Endpoint
}

var _ delivery.Database = (*Database)(nil)

// New returns a database. It connects when the database is used. The caller must call Close.
func New(config Config) (*Database, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	header := http.Header{}
	for key, value := range map[string]string{
		"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf",
		"X-Prometheus-Remote-Write-Version": "0.1.0", "X-Scope-OrgID": config.Tenant,
		"Authorization": delivery.Authorization(config.Token, "Bearer"),
	} {
		if value != "" {
			header.Set(key, value)
		}
	}
	return &Database{config, delivery.NewEndpoint(Kind, config.URL, header, config.TLS, config.Timeout)}, nil
}

// Kind returns "prometheus".
func (d *Database) Kind() string { return Kind }

// Name returns "Prometheus".
func (d *Database) Name() string { return "Prometheus" }

// Place returns the server's URL.
func (d *Database) Place() string { return d.config.URL }

// Stores reports whether a field has a number.
func (d *Database) Stores(_ string, field *sink.Field) bool {
	_, ok := field.Number()
	return ok
}

// Append appends a row as time series.
func (d *Database) Append(dst []byte, row *sink.Row) ([]byte, error) { return appendRow(dst, row) }

// Check sends a request without samples.
func (d *Database) Check(ctx context.Context) error { return d.Send(ctx, nil) }

// Close closes idle connections.
func (d *Database) Close() { d.endpoint.Close() }

// Send sends time series in one request.
func (d *Database) Send(ctx context.Context, body []byte) error {
	status, said, err := d.endpoint.Post(ctx, snappy.Encode(nil, body))
	if err != nil {
		return err
	}
	return d.explain(status, delivery.Excerpt(said))
}

// explain returns what an answer means: nil, a refusal, or what a person can do.
func (d *Database) explain(status int, said string) error {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return &delivery.RefusedError{Err: fmt.Errorf("prometheus: %s answers %d: %s", d.config.URL, status, said)}
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("prometheus: %s refuses the token or the tenant: give ones that may write (--prometheus-token, --prometheus-tenant) (%d: %s)",
			d.config.URL, status, said)
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return fmt.Errorf("prometheus: %s does not take remote writes: give the URL with its path; Prometheus needs --web.enable-remote-write-receiver (%d: %s)",
			d.config.URL, status, said)
	}
	if status/100 != 2 {
		return fmt.Errorf("prometheus: %s answers %d: %s", d.config.URL, status, said)
	}
	return nil
}
