package influx

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// probe is a line of line protocol that writes nothing: servers check token and bucket before they read it.
const probe = "# spate asks whether it may write here\n"

// Check asks whether points would arrive: is a server there, is it one that takes InfluxDB's writes, does it take the
// token, is the bucket there. It writes nothing. An error is a reason to warn and not to stop: a sink goes on trying.
func Check(ctx context.Context, config Config) error {
	if err := config.Validate(); err != nil {
		return err
	}
	s := newServer(config.withDefaults())
	defer s.close()
	return s.check(ctx)
}

// aboutLines reports whether a server complains that there are no lines to write, in so many words or none: then it
// found the bucket.
func aboutLines(said string) bool {
	said = strings.ToLower(strings.TrimSpace(said))
	return said == "" || slices.ContainsFunc([]string{"parse", "point", "line", "empty", "body"},
		func(word string) bool { return strings.Contains(said, word) })
}

// check judges by ping and probe together. Some servers call a write without points a bad request, but only once they
// have found the bucket; behind a path, as that of a cluster of VictoriaMetrics, some know writes and no ping.
func (s *server) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	status, err := s.ping(ctx)
	if err != nil {
		return s.explain(err)
	}
	pinged := status/100 == 2
	err = s.write(ctx, probe)
	answer, written := asHTTP(err), 0
	if answer != nil {
		written = answer.StatusCode
	}
	switch {
	case err == nil, pinged && written == http.StatusBadRequest && aboutLines(answer.Message):
		return nil
	case pinged, status == http.StatusUnauthorized, written == http.StatusUnauthorized, written == http.StatusForbidden:
		return s.explain(err)
	}
	return fmt.Errorf("influx: %s answers, but not as an InfluxDB does: is this the server's base URL, with http:// or https:// as the server has it? (ping: %d, write: %w)",
		s.config.URL, status, err)
}
