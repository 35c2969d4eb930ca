package influx

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// probe is a comment in line protocol, which writes nothing: servers check token and bucket before they read it.
var probe = []byte("# spate asks whether it may write here\n")

// aboutLines reports whether a server's message is empty or complains that there are no lines to write: then the server
// found the bucket.
func aboutLines(said string) bool {
	said = strings.ToLower(strings.TrimSpace(said))
	return said == "" || slices.ContainsFunc([]string{"parse", "point", "line", "empty", "body"},
		func(word string) bool { return strings.Contains(said, word) })
}

// Check returns an error if points would not arrive: if no server answers, if the server does not accept InfluxDB's
// writes or the token, or if the bucket does not exist. Check writes no points. It blocks for at most config.Timeout.
//
// It combines a ping and a probe. Some servers reject a write without points as a bad request, but only after they
// have found the bucket. Other servers accept writes but no ping, for example at a path of a VictoriaMetrics cluster.
func (d *Database) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.config.Timeout)
	defer cancel()
	status, err := d.ping(ctx)
	if err != nil {
		return d.explain(err)
	}
	pinged := status/100 == 2
	err = d.write(ctx, probe)
	got, written := asAnswer(err), 0
	if got != nil {
		written = got.status
	}
	switch {
	case err == nil, pinged && written == http.StatusBadRequest && aboutLines(got.message):
		return nil
	case pinged, status == http.StatusUnauthorized, written == http.StatusUnauthorized, written == http.StatusForbidden:
		return d.explain(err)
	}
	return fmt.Errorf("influx: %s does not answer like an InfluxDB: check that this is the server's base URL, with the right http:// or https:// (ping: %d, write: %w)",
		d.config.URL, status, err)
}
