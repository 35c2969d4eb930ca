// Package influx writes rows to servers with InfluxDB's v2 write API: InfluxDB 2, 1.8 and 3, and VictoriaMetrics.
//
// Every point has fixed tags and a time that depends on the run alone, so a point that is sent twice is the same point,
// and a point that is sent with other values replaces the first one field by field. Nothing here reads results back.
package influx

import (
	"context"
	"fmt"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/delivery"
)

// Kind is the kind of this database.
const Kind = "influx"

// Database is one bucket of a server.
type Database struct{ server *server }

var _ delivery.Database = (*Database)(nil)

// New returns a database. It connects when the database is used. The caller must call Close.
func New(config Config) (*Database, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Database{newServer(config.withDefaults())}, nil
}

// Kind returns "influx".
func (d *Database) Kind() string { return Kind }

// Name returns "InfluxDB".
func (d *Database) Name() string { return "InfluxDB" }

// Place returns the server's URL and the bucket.
func (d *Database) Place() string { return d.server.config.URL + ", bucket " + d.server.config.Bucket }

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
	err := d.server.write(ctx, string(lines))
	if err == nil {
		return nil
	}
	explained := d.server.explain(err)
	if d.server.refused(ctx, err) {
		n, _ := dropped(err)
		return &delivery.RefusedError{Points: n, Err: explained}
	}
	return explained
}

// Check returns an error if points would not arrive: if no server answers, if the server does not accept InfluxDB's
// writes or the token, or if the bucket does not exist. Check writes no points. It blocks for at most config.Timeout.
func (d *Database) Check(ctx context.Context) error { return d.server.check(ctx) }

// Close closes the connections.
func (d *Database) Close() { d.server.close() }
