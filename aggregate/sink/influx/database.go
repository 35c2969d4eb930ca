// Package influx writes rows to servers with InfluxDB's v2 write API: InfluxDB 2, 1.8 and 3, and VictoriaMetrics.
//
// Every point has fixed tags and a time that depends on the run alone, so a point that is sent twice is the same point,
// and a point that is sent with other values replaces the first one field by field. Nothing here reads results back.
package influx

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/delivery"
)

// Kind is the kind of this database.
const Kind = "influx"

// Database is one bucket of a server.
type Database struct {
	config Config
	client *http.Client
	points string // URL that points are posted to
}

var _ delivery.Database = (*Database)(nil)

// New returns a database. It connects when the database is used. The caller must call Close.
func New(config Config) (*Database, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config.Timeout = cmp.Or(config.Timeout, delivery.DefaultTimeout)
	query := url.Values{"org": {config.Org}, "bucket": {config.Bucket}, "precision": {"ns"}}
	return &Database{config: config, client: delivery.NewClient(config.TLS, 0),
		points: strings.TrimSuffix(config.URL, "/") + "/api/v2/write?" + query.Encode()}, nil
}

// Kind returns "influx".
func (d *Database) Kind() string { return Kind }

// Name returns "InfluxDB".
func (d *Database) Name() string { return "InfluxDB" }

// Place returns the server's URL and the bucket.
func (d *Database) Place() string { return d.config.URL + ", bucket " + d.config.Bucket }

// Stores reports whether a field is a number or a text: InfluxDB has no distributions.
func (d *Database) Stores(_ string, field *sink.Field) bool { return stores(field) }

// Append appends a row in line protocol.
func (d *Database) Append(dst []byte, row *sink.Row) ([]byte, error) {
	lines, err := appendLine(dst, row)
	if err != nil {
		return dst, fmt.Errorf("influx: %w", err)
	}
	return lines, nil
}

// Send writes lines. For a bad request, it also asks the server about a request without points.
func (d *Database) Send(ctx context.Context, lines []byte) error {
	err := d.write(ctx, lines)
	if err == nil {
		return nil
	}
	explained := d.explain(err)
	if d.refused(ctx, err) {
		n, _ := dropped(err)
		return &delivery.RefusedError{Points: n, Err: explained}
	}
	return explained
}

// Close closes the connections.
func (d *Database) Close() { d.client.CloseIdleConnections() }
