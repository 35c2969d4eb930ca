// Package influx writes rows to servers with InfluxDB's v2 write API: InfluxDB 2, 1.8 and 3, and VictoriaMetrics.
//
// Every point has fixed tags and a time that depends on the run alone, so a point that is sent twice is the same point,
// and a point that is sent with other values replaces the first one field by field. Nothing here reads results back.
package influx

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
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

// Kind is the kind of this database.
const Kind = "influx"

// Database is one bucket of a server.
type Database struct {
	config Config
	http   *http.Client
	client influxdb2.Client
	writer api.WriteAPIBlocking
}

var _ delivery.Database = (*Database)(nil)

// silence keeps the client library from printing a line for each failure. The library's log is a global variable.
var silence = sync.OnceFunc(func() { influxlog.Log = nil })

// New returns a database, or an error if its token cannot be sent. It connects when the database is used. The caller
// must call Close.
func New(config Config) (*Database, error) {
	if err := delivery.CheckToken(config.Token); err != nil {
		return nil, fmt.Errorf("influx: %w", err)
	}
	silence()
	by := delivery.NewClient(config.TLS, 0) // contexts of requests end in time
	options := influxdb2.DefaultOptions().SetApplicationName("spate").SetUseGZip(true).SetHTTPClient(by)
	client := influxdb2.NewClientWithOptions(config.URL, "", options)
	client.HTTPService().SetAuthorization(delivery.Authorization(config.Token, "Token"))
	return &Database{config: config, http: by, client: client,
		writer: client.WriteAPIBlocking(config.Org, config.Bucket)}, nil
}

// Close closes the connections.
func (s *Database) Close() {
	s.client.Close()
	s.http.CloseIdleConnections()
}

// Kind returns "influx".
func (s *Database) Kind() string { return Kind }

// Name returns "InfluxDB".
func (s *Database) Name() string { return "InfluxDB" }

// Place returns the server's URL and the bucket.
func (s *Database) Place() string { return s.config.URL + ", bucket " + s.config.Bucket }

// Stores reports whether a field is a number or a text: InfluxDB has no distributions.
func (s *Database) Stores(_ string, field *sink.Field) bool { return stores(field) }

// Append appends a row in line protocol.
func (s *Database) Append(dst []byte, row *sink.Row) ([]byte, error) { return appendLine(dst, row) }

// Send writes lines. For a bad request, it also asks the server about a request without points.
func (s *Database) Send(ctx context.Context, lines []byte) error {
	err := s.write(ctx, string(lines))
	if err == nil {
		return nil
	}
	explained := s.explain(err)
	if s.refused(ctx, err) {
		n, _ := dropped(err)
		return &delivery.RefusedError{Points: n, Err: explained}
	}
	return explained
}

// write sends lines once.
func (s *Database) write(ctx context.Context, lines string) error {
	ctx, cancel := context.WithTimeout(ctx, delivery.DefaultTimeout)
	defer cancel()
	return s.writer.WriteRecord(ctx, lines)
}

// ping returns the status of the server's answer to a ping: InfluxDB 1 and 2 and VictoriaMetrics 204, InfluxDB 3 200,
// or 401 without a token.
func (s *Database) ping(ctx context.Context) (status int, err error) {
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
func (s *Database) explain(err error) error {
	answer := asHTTP(err)
	if answer == nil {
		return delivery.Unreachable(Kind, s.config.URL, err)
	}
	said := cmp.Or(delivery.Excerpt([]byte(answer.Message)), http.StatusText(answer.StatusCode))
	url, org, bucket := s.config.URL, s.config.Org, s.config.Bucket
	told := func(format string, args ...any) error {
		return fmt.Errorf("influx: %s (%d: %s)", fmt.Sprintf(format, args...), answer.StatusCode, said)
	}
	switch answer.StatusCode {
	case http.StatusUnauthorized:
		return told("%s refuses the token: give one that may write (InfluxDB 1.8 and VictoriaMetrics: user:password)", url)
	case http.StatusForbidden:
		return told("the token may not write to bucket %q: give it that right", bucket)
	case http.StatusBadRequest:
		switch {
		case strings.Contains(said, "HTTPS"):
			return fmt.Errorf("influx: %s answers 400: %s: is its URL https://?", url, said)
		case org == "" && strings.Contains(said, "org"):
			return told("%s requires an organisation for bucket %q: give the organisation (org=)", url, bucket)
		}
	case http.StatusNotFound:
		switch {
		case strings.HasPrefix(said, "organization"):
			return told("%s has no organisation %q, or the token may not read it: give the organisation of bucket %q (org=)",
				url, org, bucket)
		case !strings.Contains(said, "bucket") && !strings.Contains(said, "database"):
			return told("%s does not answer like an InfluxDB: give the server's base URL, with the right http:// or https://",
				url)
		case org != "":
			bucket = fmt.Sprintf("%q in organisation %q", bucket, org)
		default:
			bucket = strconv.Quote(bucket)
		}
		return told("%s has no bucket %s: create it (InfluxDB 1.8: the database)", url, bucket)
	}
	return fmt.Errorf("influx: %s answers %d: %s", url, answer.StatusCode, said)
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
func (s *Database) refused(ctx context.Context, err error) bool {
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

// Config configures which InfluxDB to write to.
type Config struct {
	// URL is the server's base URL, http or https, without a user or password: "http://localhost:8086".
	URL string
	// Token is the API token itself; references are resolved by the caller. InfluxDB 1.8 and VictoriaMetrics:
	// "user:password". A token that starts with a scheme, such as "Bearer ", is sent unchanged. May be empty.
	Token string
	// TLS configures how an https server's certificate is verified. Nil: by the machine's certificate authorities.
	TLS *tls.Config
	// Org is the organisation that the bucket belongs to. Only InfluxDB 2 has organisations.
	Org string
	// Bucket is where points go. InfluxDB 1.8: "database" or "database/retention-policy". InfluxDB 3: the database.
	// VictoriaMetrics has no buckets and accepts any name.
	Bucket string
}

// probe is a comment in line protocol, which writes nothing: servers check token and bucket before they read it.
const probe = "# spate asks whether it may write here\n"

// aboutLines reports whether a server's message is empty or complains that there are no lines to write: then the server
// found the bucket.
func aboutLines(said string) bool {
	said = strings.ToLower(strings.TrimSpace(said))
	return said == "" || slices.ContainsFunc([]string{"parse", "point", "line", "empty", "body"},
		func(word string) bool { return strings.Contains(said, word) })
}

// Check returns an error if points would not arrive: if no server answers, if the server does not accept InfluxDB's
// writes or the token, or if the bucket does not exist. It writes no points, and blocks for at most
// delivery.DefaultTimeout.
//
// It combines a ping and a probe. Some servers reject a write without points as a bad request, but only after they have
// found the bucket. Other servers accept writes but no ping, for example at a path of a VictoriaMetrics cluster.
func (s *Database) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, delivery.DefaultTimeout)
	defer cancel()
	status, err := s.ping(ctx)
	if err != nil {
		return s.explain(err)
	}
	err = s.write(ctx, probe)
	answer := asHTTP(err)
	noLines := answer != nil && answer.StatusCode == http.StatusBadRequest && aboutLines(answer.Message)
	if err == nil || status/100 == 2 && noLines {
		return nil
	}
	return s.explain(err)
}
