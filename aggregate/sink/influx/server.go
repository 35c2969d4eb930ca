// Package influx writes rows to servers with InfluxDB's v2 write API: InfluxDB 2, 1.8 and 3, and VictoriaMetrics.
//
// Every point has fixed tags and a time that depends on the run alone, so a point that is sent twice is the same point,
// and a point that is sent with other values replaces the first one field by field. Nothing here reads results back.
package influx

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/delivery"
)

// server is a connection to the server, with what its answers mean.
type server struct {
	config   Config
	endpoint *delivery.Endpoint
}

// newServer returns a client of the server. The caller must call close.
func newServer(config Config) *server {
	header := http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
	if a := delivery.Authorization(config.Token, "Token"); a != "" {
		header.Set("Authorization", a)
	}
	to := url.Values{"org": {config.Org}, "bucket": {config.Bucket}, "precision": {"ns"}}
	base := strings.TrimSuffix(config.URL, "/")
	return &server{config, delivery.NewEndpoint(Kind, base, "/api/v2/write?"+to.Encode(), header, config.TLS, config.Timeout)}
}

// answerError is an answer other than success.
type answerError struct {
	status int
	said   string
}

func (e *answerError) Error() string { return fmt.Sprintf("%d: %s", e.status, e.said) }

// write sends lines once.
func (s *server) write(ctx context.Context, lines []byte) error {
	status, said, err := s.endpoint.Post(ctx, lines)
	if err != nil || status/100 == 2 {
		return err
	}
	var known struct{ Message, Error string }
	if json.Unmarshal(said, &known) == nil {
		said = []byte(cmp.Or(known.Message, known.Error))
	}
	return &answerError{status, strings.TrimSpace(string(said))}
}

// explain returns an error that says what a person can do about a failed write. It never contains the token.
func (s *server) explain(err error) error {
	answer := answerOf(err)
	if answer == nil {
		return err
	}
	said := cmp.Or(delivery.Excerpt([]byte(answer.said)), http.StatusText(answer.status))
	switch answer.status {
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
		return fmt.Errorf("influx: %s answers %d: %s", s.config.URL, answer.status, said)
	}
}

// answerOf returns the server's answer, or nil if there was none.
func answerOf(err error) *answerError {
	answer, _ := errors.AsType[*answerError](err)
	return answer
}

// refused reports whether the server will never take these points: they are malformed, have another type than before,
// are too old for its retention policy, or are too many at once. Problems that a person can fix are not refusals: a
// wrong token, a missing bucket, and a bad request that the server also makes of a write without points, as InfluxDB 2
// does without an organisation. To find out about the last, refused blocks for a request to the server.
func (s *server) refused(ctx context.Context, err error) bool {
	answer := answerOf(err)
	if answer == nil {
		return false
	}
	switch answer.status {
	case http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	case http.StatusBadRequest:
		if _, partial := dropped(err); partial {
			return true
		}
		err := s.write(ctx, probe)
		probed := answerOf(err)
		return err == nil || probed != nil && *probed != *answer
	default:
		return false
	}
}

// droppedPoints matches the message with which InfluxDB 1 and 2 report how many points of a request they dropped. They
// took the others.
var droppedPoints = regexp.MustCompile(`^(?:failure writing points to database: )?partial write: .* dropped=([0-9]+)$`)

// dropped returns how many points of a request the server refused, if the server says so. The server took the others.
func dropped(err error) (count int, said bool) {
	answer := answerOf(err)
	if answer == nil {
		return 0, false
	}
	match := droppedPoints.FindStringSubmatch(answer.said)
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
	return &Database{newServer(config)}, nil
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
	err := d.server.write(ctx, lines)
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
func (d *Database) Close() { d.server.endpoint.Close() }
