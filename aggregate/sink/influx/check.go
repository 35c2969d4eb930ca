package influx

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
)

// probe is a line of line protocol that writes nothing: servers check token and bucket before they read it.
const probe = "# spate asks whether it may write here\n"

// Check asks whether points would arrive: is a server there, is it an InfluxDB, does it take the token, is the bucket there. It
// writes nothing. An error is a reason to warn and not to stop: a sink goes on trying.
func Check(ctx context.Context, config Config) error {
	if err := config.Validate(); err != nil {
		return err
	}
	config = config.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, config.Timeout)
	defer cancel()
	s := &Sink{config: config, client: newClient(config)}
	defer s.client.Close()
	if _, err := s.client.Ping(ctx); err != nil {
		return s.explainPing(err)
	}
	err := s.client.WriteAPIBlocking(config.Org, config.Bucket).WriteRecord(ctx, probe)
	if err == nil || refusedForGood(err) {
		return nil // Some servers call a write without points a bad request, but only once they have found the bucket.
	}
	return s.explain(err)
}

// explainPing says why a server does not even answer a ping.
func (s *Sink) explainPing(err error) error {
	if unreachable(err) {
		return s.explain(err)
	}
	return fmt.Errorf("influx: %s answers, but not as an InfluxDB does: is this the server's base URL? (%w)", s.config.URL, err)
}

// explain says what a person can do about a failed write. It never holds the token.
func (s *Sink) explain(err error) error {
	answer := asHTTP(err)
	if answer == nil {
		return fmt.Errorf("influx: %s cannot be reached: is the server up and the URL right? (%w)", s.config.URL, err)
	}
	said := strings.TrimSpace(answer.Message)
	if said == "" {
		said = http.StatusText(answer.StatusCode)
	}
	switch answer.StatusCode {
	case http.StatusUnauthorized:
		return fmt.Errorf("influx: %s refuses the token: give one that may write (InfluxDB 1.8: user:password) (401: %s)", s.config.URL, said)
	case http.StatusForbidden:
		return fmt.Errorf("influx: the token may not write to bucket %q: give it that right (403: %s)", s.config.Bucket, said)
	case http.StatusNotFound:
		return fmt.Errorf("influx: %s has no bucket %q in organisation %q: create it (InfluxDB 1.8: the database), or is this no InfluxDB with the v2 API? (404: %s)",
			s.config.URL, s.config.Bucket, s.config.Org, said)
	default:
		return fmt.Errorf("influx: %s answers %d: %s", s.config.URL, answer.StatusCode, said)
	}
}

// unreachable says that nobody answered.
func unreachable(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.As(err, &timeout) && timeout.Timeout()
}
