package coordinatorcmd

import (
	"bytes"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spate-load/spate/aggregate/sink/delivery"
)

// The certificate of an https server is checked by the given file, or not at all if the flags say so, which is logged.
func TestInfluxByItsAuthority(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	defer server.Close()
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for name, c := range map[string]struct {
		change func(*Influx)
		want   string // of an error; empty: none
		says   string // in the log
	}{
		"known":         {func(i *Influx) { i.CA = good }, "", ""},
		"insecure":      {func(i *Influx) { i.Insecure = true }, "", "is not checked"},
		"unknown":       {func(*Influx) {}, "--influx-ca", ""},
		"no file":       {func(i *Influx) { i.CA = filepath.Join(dir, "none") }, "no such file", ""},
		"no PEM":        {func(i *Influx) { i.CA = write("x", []byte("x")) }, "no certificate in PEM form", ""},
		"both":          {func(i *Influx) { i.CA, i.Insecure = good, true }, "do not go together", ""},
		"plain":         {func(i *Influx) { i.URL, i.CA = "http://localhost:8086", good }, "begins with https://", ""},
		"nowhere":       {func(i *Influx) { *i = Influx{Server: Server{Insecure: true}} }, "begins with https://", ""},
		"secret's gone": {func(i *Influx) { i.Token = "env:SPATE_TEST_NOT_SET" }, "--influx-token", ""},
	} {
		settings := Influx{Server: Server{URL: server.URL}, Bucket: "b"}
		c.change(&settings)
		var log bytes.Buffer
		err := settings.Validate()
		var db delivery.Database
		if err == nil {
			db, err = settings.Open(slog.New(slog.NewTextHandler(&log, nil)))
		}
		if err == nil {
			err = db.Check(t.Context())
			db.Close()
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if !strings.Contains(log.String(), c.says) || c.says == "" && log.Len() > 0 {
			t.Errorf("%s: the log says %q", name, log.String())
		}
	}
}
