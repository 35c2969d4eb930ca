package influx

import (
	"context"
	"crypto/tls"
	"net/http"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/sink/delivery"
)

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
