package influx

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/sink/delivery"
)

// probe is a comment in line protocol, which writes nothing: servers check token and bucket before they read it.
const probe = "# spate asks whether it may write here\n"

// aboutLines reports whether a server's message is empty or complains that there are no lines to write: then the server
// found the bucket.
func aboutLines(said string) bool {
	said = strings.ToLower(strings.TrimSpace(said))
	return said == "" || slices.ContainsFunc([]string{"parse", "point", "line", "empty", "body"},
		func(word string) bool { return strings.Contains(said, word) })
}

// check combines a ping and a probe. Some servers reject a write without points as a bad request, but only after they
// have found the bucket. Other servers accept writes but no ping, for example at a path of a VictoriaMetrics cluster.
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
	return fmt.Errorf("influx: %s does not answer like an InfluxDB: check that this is the server's base URL, with the right http:// or https:// (ping: %d, write: %s)",
		s.config.URL, status, delivery.Excerpt([]byte(err.Error())))
}
