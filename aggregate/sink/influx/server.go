package influx

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/spate-load/spate/aggregate/sink/delivery"
)

// answer is the answer to a request that the server did not carry out.
type answer struct {
	status        int
	code, message string
}

// Error returns what the server said.
func (a *answer) Error() string {
	if a.code == "" || a.message == "" {
		return "Unexpected status code " + strconv.Itoa(a.status)
	}
	return a.code + ": " + a.message
}

// write sends lines once. An error is an answer, or says that there was none.
func (d *Database) write(ctx context.Context, lines []byte) error {
	got, err := d.ask(ctx, http.MethodPost, d.points, delivery.Compressed(lines))
	if err == nil && got.status/100 != 2 {
		return got
	}
	return err
}

// ping returns the status of the server's answer to a ping: InfluxDB 1 and 2 and VictoriaMetrics 204, InfluxDB 3 200,
// or 401 without a token.
func (d *Database) ping(ctx context.Context) (status int, err error) {
	got, err := d.ask(ctx, http.MethodGet, strings.TrimSuffix(d.config.URL, "/")+"/ping", nil)
	if err != nil {
		return 0, err
	}
	return got.status, nil
}

// ask sends a request, whose body is compressed, and returns the answer.
func (d *Database) ask(ctx context.Context, method, url string, body []byte) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, d.config.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "spate")
	if body != nil {
		request.Header.Set("Content-Encoding", "gzip")
	}
	if a := delivery.Authorization(d.config.Token, "Token"); a != "" {
		request.Header.Set("Authorization", a)
	}
	response, err := d.client.Do(request)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(response.Body) // The client limits it.
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	return answerOf(response, text), nil
}

// answerOf reads an answer: InfluxDB sends JSON, others a text.
func answerOf(response *http.Response, text []byte) *answer {
	got := &answer{status: response.StatusCode, code: response.Status, message: string(text)}
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind == "application/json" {
		var said struct{ Code, Message string }
		_ = json.Unmarshal(text, &said) // invalid JSON says nothing
		got.code, got.message = cmp.Or(said.Code, response.Status), said.Message
		if said.Code == "" && said.Message == "" {
			got.message = response.Header.Get("X-Influxdb-Error") // InfluxDB 1
		}
	}
	return got
}

// explain returns an error that says what a person can do about a failed write. It never contains the token.
func (d *Database) explain(err error) error {
	got := asAnswer(err)
	if got == nil {
		return delivery.Unreachable(Kind, d.config.URL, err)
	}
	said := delivery.Excerpt([]byte(got.message))
	if said == "" {
		said = http.StatusText(got.status)
	}
	switch got.status {
	case http.StatusUnauthorized:
		return fmt.Errorf("influx: %s refuses the token: give one that may write (InfluxDB 1.8 and VictoriaMetrics: user:password) (401: %s)", d.config.URL, said)
	case http.StatusForbidden:
		return fmt.Errorf("influx: the token may not write to bucket %q: give it that right (403: %s)",
			d.config.Bucket, said)
	case http.StatusBadRequest:
		if d.config.Org == "" && strings.Contains(said, "org") {
			return fmt.Errorf("influx: %s requires an organisation for bucket %q: give the organisation (--influx-org) (400: %s)", d.config.URL, d.config.Bucket, said)
		}
		return fmt.Errorf("influx: %s answers 400: %s", d.config.URL, said)
	case http.StatusNotFound:
		if strings.HasPrefix(said, "organization") {
			return fmt.Errorf("influx: %s has no organisation %q, or the token may not read it: give the organisation of bucket %q (--influx-org) (404: %s)",
				d.config.URL, d.config.Org, d.config.Bucket, said)
		}
		where := ""
		if d.config.Org != "" {
			where = fmt.Sprintf(" in organisation %q", d.config.Org)
		}
		return fmt.Errorf("influx: %s has no bucket %q%s: create it (InfluxDB 1.8: the database), or is this server not an InfluxDB with the v2 API? (404: %s)",
			d.config.URL, d.config.Bucket, where, said)
	default:
		return fmt.Errorf("influx: %s answers %d: %s", d.config.URL, got.status, said)
	}
}

// asAnswer returns the server's answer, or nil if there was none.
func asAnswer(err error) *answer {
	got, _ := errors.AsType[*answer](err)
	return got
}

// refused reports whether the server will never take these points: they are malformed, have another type than before,
// are too old for its retention policy, or are too many at once. Problems that a person can fix are not refusals: a
// wrong token, a missing bucket, and a bad request that the server also makes of a write without points, as InfluxDB 2
// does without an organisation. To find out about the last, refused blocks for a request to the server.
func (d *Database) refused(ctx context.Context, err error) bool {
	got := asAnswer(err)
	if got == nil {
		return false
	}
	switch got.status {
	case http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	case http.StatusBadRequest:
		if _, partial := dropped(err); partial {
			return true
		}
		err := d.write(ctx, probe)
		probed := asAnswer(err)
		return err == nil || probed != nil &&
			(probed.status != got.status || probed.message != got.message)
	default:
		return false
	}
}

// droppedPoints matches the message with which InfluxDB 1 and 2 report how many points of a request they dropped. They
// took the others.
var droppedPoints = regexp.MustCompile(`^(?:failure writing points to database: )?partial write: .* dropped=([0-9]+)$`)

// dropped returns how many points of a request the server refused, if the server says so. The server took the others.
func dropped(err error) (count int, said bool) {
	got := asAnswer(err)
	if got == nil {
		return 0, false
	}
	match := droppedPoints.FindStringSubmatch(strings.TrimSpace(got.message))
	if match == nil {
		return 0, false
	}
	count, err = strconv.Atoi(match[1])
	return count, err == nil
}
