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
)

// write writes a file of a test and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// opened opens the databases of URLs and asks whether they take points.
func opened(t *testing.T, logger *slog.Logger, urls ...string) error {
	t.Helper()
	databases, err := (&Sinks{URLs: urls}).Open(logger)
	for _, db := range databases {
		defer db.Close()
		if err == nil {
			err = db.Check(t.Context())
		}
	}
	return err
}

// A URL says all of a database. What is wrong is said without the secrets that it may have.
func TestSinksByURL(t *testing.T) {
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		got = q.Header
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	t.Setenv("SPATE_TEST_KEY", "s3cret=x,y")
	t.Setenv("SPATE_INFLUX_TOKEN", "of-environment")
	influx, otlp := "influx+"+server.URL, "otlp+"+server.URL
	for name, c := range map[string]struct{ url, header, want string }{
		"token of the environment": {influx + "?bucket=b", "Authorization: Token of-environment", ""},
		"token by reference":       {influx + "?bucket=b&token=env:SPATE_TEST_KEY", "Authorization: Token s3cret=x,y", ""},
		"header by reference":      {otlp + "?header=api-key=env:SPATE_TEST_KEY", "Api-Key: s3cret=x,y", ""},
		"not set":                  {otlp + "?header=api-key=env:SPATE_TEST_NOT_SET", "", "header api-key: the environment"},
		"open token":               {influx + "?bucket=b&token=s3cret", "", "token: want env:NAME or file:PATH"},
		"open header":              {otlp + "?header=a=s3cret", "", "header a: want env:NAME or file:PATH"},
		"no value":                 {otlp + "?header=s3cret", "", "header: want NAME=env:KEY"},
		"a password":               {"influx+http://u:s3cret@h:1?bucket=b", "", "the URL holds a user"},
		"a broken URL":             {"influx+http://u:s3cret?bucket=b", "", "want a URL such as"},
		"a fragment":               {influx + "?bucket=b#s3cret", "", "want a URL such as"},
		"another scheme":           {"otlp+grpc://h:1", "", "want a URL such as"},
		"no kind":                  {"http://h:1?token=s3cret", "", "want a URL such as"},
		"unknown kind":             {"mysql+http://u:s3cret@h:1", "", "want a URL such as"},
		"unknown parameter":        {influx + "?bucket=b&tokn=s3cret", "", `unknown parameter "tokn": want token, ca`},
		"of another kind":          {otlp + "?bucket=b", "", `unknown parameter "bucket"`},
		"no bucket":                {influx, "", "bucket=BUCKET is missing"},
		"Spate's own header":       {otlp + "?header=content-type=env:SPATE_TEST_KEY", "", "is set by Spate"},
		"plain":                    {influx + "?bucket=b&ca=x", "", "begins with https://"},
		"both":                     {"otlp+https://h:1?ca=x&insecure=true", "", "do not go together"},
		"neither":                  {"otlp+https://h:1?insecure=yes", "", "want true"},
	} {
		err := opened(t, slog.New(slog.DiscardHandler), c.url)
		key, value, _ := strings.Cut(c.header, ": ")
		switch {
		case c.want == "" && (err != nil || got.Get(key) != value):
			t.Errorf("%s: %v, sent %v", name, err, got)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret")):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if err := opened(t, slog.New(slog.DiscardHandler), otlp, influx+"?bucket=b"); err != nil {
		t.Errorf("one of each kind: %v", err)
	}
	if err := (&Sinks{URLs: []string{otlp, otlp}}).Validate(); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("two of a kind: %v", err)
	}
}

// The certificate of an https server is checked by the given file, or not at all if the URL says so, which is logged.
func TestSinkByItsAuthority(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	defer server.Close()
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for name, c := range map[string]struct{ parameter, want, says string }{
		"known":    {"&ca=" + write(t, authority), "", ""},
		"insecure": {"&insecure=true", "", "is not checked"},
		"unknown":  {"", "ca=FILE", ""},
		"no file":  {"&ca=none", "no such file", ""},
		"no PEM":   {"&ca=" + write(t, "x"), "no certificate in PEM form", ""},
	} {
		var log bytes.Buffer
		err := opened(t, slog.New(slog.NewTextHandler(&log, nil)), "influx+"+server.URL+"?bucket=b"+c.parameter)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if !strings.Contains(log.String(), c.says) || c.says == "" && log.Len() > 0 {
			t.Errorf("%s: the log says %q", name, log.String())
		}
	}
}
