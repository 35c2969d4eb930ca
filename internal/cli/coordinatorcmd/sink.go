package coordinatorcmd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/delivery"
	"github.com/spate-load/spate/aggregate/sink/influx"
	"github.com/spate-load/spate/aggregate/sink/otlp"
	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/plans/secret"
)

// parametersOf has the parameters of each kind of database beside token, ca and insecure.
var parametersOf = map[string][]string{influx.Kind: {"bucket", "org"}, otlp.Kind: {"header"}}

// server is a database that a URL describes: KIND+URL?PARAMETERS.
type server struct {
	kind, url  string
	parameters url.Values
}

var errNoSink = errors.New("want a URL such as influx+http://HOST:8086?bucket=BUCKET or otlp+http://HOST:4318 (or https)")

// parseSink parses the URL of a database. Its errors have neither parameters nor what may be a password.
func parseSink(text string) (*server, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errNoSink
	}
	s := &server{parameters: u.Query()}
	s.kind, u.Scheme, _ = strings.Cut(u.Scheme, "+")
	if parametersOf[s.kind] == nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" {
		return nil, errNoSink
	}
	if u.User != nil {
		return nil, fmt.Errorf("%s: the URL holds a user: give user:password as the token, by token=env:NAME or token=file:PATH", s.kind)
	}
	u.RawQuery = ""
	s.url = u.String()
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("%s+%s: %w", s.kind, s.url, err)
	}
	return s, nil
}

// check returns an error if parameters are not known, or do not go together.
func (s *server) check() error {
	known := append([]string{"token", "ca", "insecure"}, parametersOf[s.kind]...)
	for _, name := range slices.Sorted(maps.Keys(s.parameters)) {
		if !slices.Contains(known, name) {
			return fmt.Errorf("unknown parameter %q: want %s", name, strings.Join(known, ", "))
		}
	}
	ca, insecure := s.parameters.Get("ca"), s.parameters.Get("insecure")
	switch {
	case s.kind == influx.Kind && s.parameters.Get("bucket") == "":
		return errors.New("bucket=BUCKET is missing")
	case insecure != "" && insecure != "true":
		return errors.New("insecure: want true")
	case ca != "" && insecure == "true":
		return errors.New("ca and insecure do not go together: check the server's certificate or do not")
	case (ca != "" || insecure == "true") && !strings.HasPrefix(s.url, "https://"):
		return errors.New("ca and insecure are for a URL that begins with https://")
	}
	return nil
}

// open resolves what the URL refers to. The caller closes the database.
func (s *server) open(logger *slog.Logger) (db delivery.Database, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("--sink %s+%s: %w", s.kind, s.url, err)
		}
	}()
	token, err := s.token()
	if err != nil {
		return nil, err
	}
	check, err := s.verification(logger)
	if err != nil {
		return nil, err
	}
	if s.kind == influx.Kind {
		return influx.New(influx.Config{URL: s.url, Token: token, Org: s.parameters.Get("org"),
			Bucket: s.parameters.Get("bucket"), TLS: check})
	}
	header := http.Header{}
	for _, h := range s.parameters["header"] {
		name, reference, ok := strings.Cut(h, "=")
		if !ok {
			return nil, errors.New("header: want NAME=env:KEY or NAME=file:PATH") // the text may be a secret
		}
		value, err := secretOf(reference)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", name, err)
		}
		header[name] = append(header[name], value)
	}
	return otlp.New(otlp.Config{URL: s.url, Token: token, Header: header, TLS: check})
}

// token returns the token of the URL, or of the environment: SPATE_INFLUX_TOKEN or SPATE_OTLP_TOKEN.
func (s *server) token() (string, error) {
	if !s.parameters.Has("token") {
		return command.Secret(os.Getenv("SPATE_" + strings.ToUpper(s.kind) + "_TOKEN"))
	}
	token, err := secretOf(s.parameters.Get("token"))
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return token, nil
}

// secretOf returns the secret that a reference in a URL names. The secret itself has no place there: processes and logs
// show arguments. The error does not have it.
func secretOf(reference string) (string, error) {
	if !secret.IsReference(reference) {
		return "", errors.New("want env:NAME or file:PATH, not the secret itself, which others can read in a URL")
	}
	return command.Secret(reference)
}

// verification says how to check the server's certificate: nil for the machine's trusted authorities.
func (s *server) verification(logger *slog.Logger) (*tls.Config, error) {
	if s.parameters.Get("insecure") == "true" {
		logger.Warn("the server's certificate is not checked: anyone on the network path can read the token", "url", s.url)
		//nolint:gosec // asked for by name
		return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, nil
	}
	path := s.parameters.Get("ca")
	if path == "" {
		return nil, nil
	}
	pool, err := certs.Pool(path)
	if err != nil {
		return nil, fmt.Errorf("ca: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, nil
}

// Sinks says where merged results are written during a run. The zero value writes nowhere.
type Sinks struct {
	URLs []string `flag:"sink" help:"write merged results to this database as they arrive: <URL> such as influx+http://HOST:8086?bucket=B&org=O or otlp+http://HOST:4318; token=env:NAME or file:PATH, ca=FILE, insecure=true, header=NAME=env:KEY (otlp); one of each kind"`
}

// Validate returns an error for each URL that is wrong.
func (s *Sinks) Validate() error {
	_, err := s.servers()
	return err
}

func (s *Sinks) servers() (all []*server, err error) {
	var errs []error
	for _, text := range s.URLs {
		one, err := parseSink(text)
		if err == nil && slices.ContainsFunc(all, func(other *server) bool { return other.kind == one.kind }) {
			err = fmt.Errorf("%s+%s: there is one of this kind already", one.kind, one.url)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--sink: %w", err))
			continue
		}
		all = append(all, one)
	}
	return all, errors.Join(errs...)
}

// Open opens all databases. The caller closes them.
func (s *Sinks) Open(logger *slog.Logger) ([]delivery.Database, error) {
	servers, err := s.servers()
	if err != nil {
		return nil, err
	}
	var databases []delivery.Database
	for _, one := range servers {
		db, err := one.open(logger)
		if err != nil {
			return nil, err
		}
		databases = append(databases, db)
	}
	return databases, nil
}

// Opener checks the settings and returns a function that opens a run's sink, which writes to all databases. The
// function is nil if nothing will be written. A database that does not answer, or that refuses, is logged and is not an
// error: it affects no result, and it may work again when the run has points to write. Databases stay open until the
// process ends.
func (s *Sinks) Opener(ctx context.Context, logger *slog.Logger) (func(runDir string) (sink.Sink, error), error) {
	databases, err := s.Open(logger)
	if err != nil || len(databases) == 0 {
		return nil, err
	}
	told := map[string]string{}
	for _, db := range databases {
		if err := db.Check(ctx); err != nil {
			told[db.Kind()] = err.Error()
			logger.Warn("the database does not take points now; the run continues and they are sent later",
				"database", db.Name(), "error", err)
		}
	}
	var first sync.Once // later runs of a coordinator say again what fails
	return func(runDir string) (sink.Sink, error) {
		replay := func(emit func([]sink.Row) error) (bool, error) {
			return points.ReplayEnded(filepath.Join(runDir, ledger.File), emit)
		}
		config := delivery.Config{RunDir: runDir, Replay: replay, Log: logger}
		first.Do(func() { config.Told = told })
		return delivery.Open(config, databases...)
	}, nil
}
