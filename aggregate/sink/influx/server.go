// Package influx writes rows to servers with InfluxDB's v2 write API: InfluxDB 2, 1.8 and 3, and VictoriaMetrics.
//
// Every point has fixed tags and a time that depends on the run alone, so a point that is sent twice is the same point,
// and a point that is sent with other values replaces the first one field by field. Nothing here reads results back.
package influx

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"

	influxdb2 "github.com/influxdata/influxdb-client-go/v2"
	"github.com/influxdata/influxdb-client-go/v2/api"
	influxhttp "github.com/influxdata/influxdb-client-go/v2/api/http"
	influxlog "github.com/influxdata/influxdb-client-go/v2/log"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/delivery"
)

// server is a connection to the server, with what its answers mean.
type server struct {
	config Config
	http   *http.Client
	client influxdb2.Client
	writer api.WriteAPIBlocking
}

// silence keeps the client library from printing a line for each failure. The library's log is a global variable.
var silence = sync.OnceFunc(func() { influxlog.Log = nil })

// newServer returns a client of the server. Time-outs are set by the contexts of requests. The caller must call close.
func newServer(config Config) *server {
	silence()
	by := delivery.NewClient(config.TLS, 0)
	options := influxdb2.DefaultOptions().SetApplicationName("spate").SetUseGZip(true).SetHTTPClient(by)
	client := influxdb2.NewClientWithOptions(config.URL, "", options)
	client.HTTPService().SetAuthorization(delivery.Authorization(config.Token, "Token"))
	return &server{config: config, http: by, client: client, writer: client.WriteAPIBlocking(config.Org, config.Bucket)}
}

func (s *server) close() {
	s.client.Close()
	s.http.CloseIdleConnections()
}

// write sends lines once.
func (s *server) write(ctx context.Context, lines string) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	return s.writer.WriteRecord(ctx, lines)
}

// ping returns the status of the server's answer to a ping: InfluxDB 1 and 2 and VictoriaMetrics 204, InfluxDB 3 200,
// or 401 without a token.
func (s *server) ping(ctx context.Context) (status int, err error) {
	service := s.client.HTTPService()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.config.URL, "/")+"/ping",
		http.NoBody)
	if err != nil {
		return 0, err
	}
	if a := service.Authorization(); a != "" {
		request.Header.Set("Authorization", a)
	}
	answer, err := service.DoHTTPRequestWithResponse(request, nil)
	switch known := asHTTP(err); {
	case known != nil:
		return known.StatusCode, nil //nolint:nilerr // a status of any kind is an answer to a ping
	case err != nil:
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// explain returns an error that says what a person can do about a failed write. It never contains the token.
func (s *server) explain(err error) error {
	answer := asHTTP(err)
	if answer == nil {
		return delivery.Unreachable(Kind, s.config.URL, err)
	}
	said := delivery.Excerpt([]byte(answer.Message))
	if said == "" {
		said = http.StatusText(answer.StatusCode)
	}
	switch answer.StatusCode {
	case http.StatusUnauthorized:
		return fmt.Errorf("influx: %s refuses the token: give one that may write (InfluxDB 1.8 and VictoriaMetrics: user:password) (401: %s)", s.config.URL, said)
	case http.StatusForbidden:
		return fmt.Errorf("influx: the token may not write to bucket %q: give it that right (403: %s)",
			s.config.Bucket, said)
	case http.StatusBadRequest:
		if strings.Contains(said, "HTTPS") {
			return fmt.Errorf("influx: %s answers 400: %s: is its URL https://?", s.config.URL, said)
		}
		if s.config.Org == "" && strings.Contains(said, "org") {
			return fmt.Errorf("influx: %s requires an organisation for bucket %q: give the organisation (org=) (400: %s)", s.config.URL, s.config.Bucket, said)
		}
		return fmt.Errorf("influx: %s answers 400: %s", s.config.URL, said)
	case http.StatusNotFound:
		if strings.HasPrefix(said, "organization") {
			return fmt.Errorf("influx: %s has no organisation %q, or the token may not read it: give the organisation of bucket %q (org=) (404: %s)",
				s.config.URL, s.config.Org, s.config.Bucket, said)
		}
		if !strings.Contains(said, "bucket") && !strings.Contains(said, "database") {
			return fmt.Errorf("influx: %s does not answer like an InfluxDB: give the server's base URL, with the right http:// or https:// (404: %s)",
				s.config.URL, said)
		}
		where := ""
		if s.config.Org != "" {
			where = fmt.Sprintf(" in organisation %q", s.config.Org)
		}
		return fmt.Errorf("influx: %s has no bucket %q%s: create it (InfluxDB 1.8: the database) (404: %s)",
			s.config.URL, s.config.Bucket, where, said)
	default:
		return fmt.Errorf("influx: %s answers %d: %s", s.config.URL, answer.StatusCode, said)
	}
}

// asHTTP returns the server's answer, or nil if there was none.
func asHTTP(err error) *influxhttp.Error {
	var answer *influxhttp.Error
	if errors.As(err, &answer) && answer.StatusCode != 0 {
		return answer
	}
	return nil
}

// refused reports whether the server will never take these points: they are malformed, have another type than before,
// are too old for its retention policy, or are too many at once. Problems that a person can fix are not refusals: a
// wrong token, a missing bucket, and a bad request that the server also makes of a write without points, as InfluxDB 2
// does without an organisation. To find out about the last, refused blocks for a request to the server.
func (s *server) refused(ctx context.Context, err error) bool {
	answer := asHTTP(err)
	if answer == nil {
		return false
	}
	switch answer.StatusCode {
	case http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	case http.StatusBadRequest:
		if _, partial := dropped(err); partial {
			return true
		}
		err := s.write(ctx, probe)
		probed := asHTTP(err)
		return err == nil || probed != nil &&
			(probed.StatusCode != answer.StatusCode || probed.Message != answer.Message)
	default:
		return false
	}
}

// droppedPoints matches the message with which InfluxDB 1 and 2 report how many points of a request they dropped. They
// took the others.
var droppedPoints = regexp.MustCompile(`^(?:failure writing points to database: )?partial write: .* dropped=([0-9]+)$`)

// dropped returns how many points of a request the server refused, if the server says so. The server took the others.
func dropped(err error) (count int, said bool) {
	answer := asHTTP(err)
	if answer == nil {
		return 0, false
	}
	match := droppedPoints.FindStringSubmatch(strings.TrimSpace(answer.Message))
	if match == nil {
		return 0, false
	}
	count, err = strconv.Atoi(match[1])
	return count, err == nil
}

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
