// Package otlp sends rows to collectors of OpenTelemetry, as metrics over OTLP/HTTP.
//
// Counts of a stage are cumulative sums, distributions exponential histograms; what is neither is a gauge. Windows and
// percentiles are not sent, because a backend computes both from what is. A collector passes on a point that it gets
// twice.
package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/delivery"
)

// Kind is the kind of this database.
const Kind = "otlp"

// Config configures which collector to send to.
type Config struct {
	// URL is the collector's URL, http or https. Without a path, it is that of metrics: /v1/metrics. It must not
	// contain a user or password.
	URL string
	// Token is the token itself; references are resolved by the caller. "user:password" is sent as Basic, a token that
	// starts with a scheme unchanged, and any other as Bearer. May be empty.
	Token string
	// Header is sent with each request. Its values may be secrets, and are resolved by the caller.
	Header http.Header
	// TLS configures how an https server's certificate is verified. Nil: by the machine's certificate authorities.
	TLS *tls.Config
}

// own are the headers that Spate sets.
var own = []string{"Content-Type", "Content-Encoding", "Content-Length", "Host", "User-Agent", "Transfer-Encoding"}

// checkHeader returns an error if a header cannot be sent. It contains no value.
func (c Config) checkHeader() error {
	for name, values := range c.Header {
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return fmt.Errorf("%q is not the name of a header", name)
		case slices.Contains(own, http.CanonicalHeaderKey(name)):
			return fmt.Errorf("the header %s is set by Spate: leave it out", name)
		case !httpguts.ValidHeaderFieldValue(strings.Join(values, "")):
			return fmt.Errorf("the value of the header %s has a control character: remove it", name)
		case c.Token != "" && http.CanonicalHeaderKey(name) == "Authorization":
			return errors.New("a token and the header Authorization: give one of them")
		}
	}
	return nil
}

// Database is a collector.
type Database struct {
	url    string
	header http.Header // of each request
	client *http.Client
}

var _ delivery.Database = (*Database)(nil)

// New returns a database. It connects when the database is used. The caller must call Close.
func New(config Config) (*Database, error) {
	if err := errors.Join(delivery.CheckToken(config.Token), config.checkHeader()); err != nil {
		return nil, fmt.Errorf("otlp: %w", err)
	}
	to, err := url.Parse(config.URL)
	if err != nil {
		return nil, err
	}
	if strings.Trim(to.Path, "/") == "" {
		to.Path = "/v1/metrics"
	}
	header := http.Header{"Content-Type": {"application/x-protobuf"}, "Content-Encoding": {"gzip"}, "User-Agent": {"spate"}}
	maps.Copy(header, config.Header)
	if a := delivery.Authorization(config.Token, "Bearer"); a != "" {
		header.Set("Authorization", a)
	}
	return &Database{to.String(), header, delivery.NewClient(config.TLS, delivery.DefaultTimeout)}, nil
}

// Kind returns "otlp".
func (d *Database) Kind() string { return Kind }

// Name returns "OpenTelemetry".
func (d *Database) Name() string { return "OpenTelemetry" }

// Place returns the collector's URL.
func (d *Database) Place() string { return d.url }

// Stores reports whether a field is sent.
func (d *Database) Stores(measurement string, field *sink.Field) bool {
	return stores(measurement, field)
}

// Append appends a row as the metrics of a resource.
func (d *Database) Append(dst []byte, row *sink.Row) ([]byte, error) { return appendRow(dst, row) }

// Check sends a request without metrics.
func (d *Database) Check(ctx context.Context) error { return d.Send(ctx, nil) }

// Close closes idle connections.
func (d *Database) Close() { d.client.CloseIdleConnections() }

// Send sends metrics in one request.
func (d *Database) Send(ctx context.Context, body []byte) error {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write(body)
	if err := errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("otlp: compress: %w", err)
	}
	status, said, err := d.post(ctx, &packed)
	if err != nil {
		return err
	}
	if status/100 == 2 {
		return d.rejected(said)
	}
	return d.explain(status, delivery.Excerpt(readable(said)))
}

// post sends a body and returns what the server answers. The error says why none came.
func (d *Database) post(ctx context.Context, body io.Reader) (status int, said []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, body)
	if err != nil {
		return 0, nil, err
	}
	request.Header = d.header.Clone()
	answer, err := d.client.Do(request)
	if err == nil {
		said, err = io.ReadAll(answer.Body) // the client limits it
		err = errors.Join(err, answer.Body.Close())
	}
	if err != nil {
		return 0, nil, delivery.Unreachable(Kind, d.url, err)
	}
	return answer.StatusCode, said, nil
}

// explain returns what an answer other than success means: a refusal, or what a person can do.
func (d *Database) explain(status int, said string) error {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return &delivery.RefusedError{Err: fmt.Errorf("otlp: %s answers %d: %s", d.url, status, said)}
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("otlp: %s refuses the token or a header: give ones that may write (token=, header=) (%d: %s)",
			d.url, status, said)
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType:
		return fmt.Errorf("otlp: %s takes no OTLP metrics over HTTP: give the URL of the receiver, usually port 4318, with its path (%d: %s)",
			d.url, status, said)
	}
	return fmt.Errorf("otlp: %s answers %d: %s", d.url, status, said)
}

// Numbers of fields in ExportMetricsServiceResponse, ExportMetricsPartialSuccess and google.rpc.Status:
// https://opentelemetry.io/docs/specs/otlp/#otlphttp-response
const (
	partialSuccess = 1
	rejectedPoints = 1
	whyRejected    = 2
	statusMessage  = 2
)

// rejected returns an error if a collector took only a part of a request. It counts its own points, of which a row has
// many, so at most as many rows were refused.
func (d *Database) rejected(answer []byte) error {
	points, why := uint64(0), ""
	for number, value := range fields(answer) {
		if number != partialSuccess {
			continue
		}
		for number, value := range fields(value.bytes) {
			switch number {
			case rejectedPoints:
				points = value.number
			case whyRejected:
				why = string(value.bytes)
			}
		}
	}
	if points == 0 { // a message without rejected points is a warning
		return nil
	}
	return &delivery.RefusedError{Points: int(min(points, 1<<30)),
		Err: fmt.Errorf("otlp: %s rejects %d data points: %s", d.url, points, delivery.Excerpt([]byte(why)))}
}

// readable returns the message of an error, which is a google.rpc.Status, or else the answer itself.
func readable(answer []byte) []byte {
	for number, value := range fields(answer) {
		if number == statusMessage && len(value.bytes) > 0 {
			return value.bytes
		}
	}
	return answer
}

// value is the value of a field: a number or bytes.
type value struct {
	number uint64
	bytes  []byte
}

// fields yields the fields of an encoded message, up to the first that is malformed.
func fields(message []byte) func(func(protowire.Number, value) bool) {
	return func(yield func(protowire.Number, value) bool) {
		for len(message) > 0 {
			number, kind, size := protowire.ConsumeTag(message)
			if size < 0 {
				return
			}
			message = message[size:]
			var v value
			switch kind {
			case protowire.VarintType:
				v.number, size = protowire.ConsumeVarint(message)
			case protowire.BytesType:
				v.bytes, size = protowire.ConsumeBytes(message)
			default:
				size = protowire.ConsumeFieldValue(number, kind, message)
			}
			if size < 0 || !yield(number, v) {
				return
			}
			message = message[size:]
		}
	}
}
