package servertest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"github.com/spate-load/spate/internal/process"
)

// InfluxTwo reports whether tests run against InfluxDB 2.7.
func InfluxTwo() bool { return process.Needs("influxd2") }

// owner is the organisation that owns everything on a server of version 2.
const owner = "spate-org"

// runTwo starts a process of version 2 and waits until it logs its address.
func (s *Influx) runTwo() {
	s.tb.Helper()
	s.process = process.Start(s.tb, process.Tool(s.tb, "influxd2", "InfluxDB 2.7"), "--http-bind-address", s.address,
		"--reporting-disabled", "--ui-disabled", "--log-level", "info",
		"--bolt-path", filepath.Join(s.dir, "bolt"), "--sqlite-path", filepath.Join(s.dir, "sqlite"), "--engine-path",
		filepath.Join(s.dir, "engine"))
	s.address = "127.0.0.1:" + s.process.Await(`msg=Listening .*transport=http addr=\S+ port=([0-9]+)`)[1]
	s.URL = "http://" + s.address
}

// setUp makes the organisation, the bucket and the token. Version 2 always requires a token.
func (s *Influx) setUp() {
	s.tb.Helper()
	s.Org, s.Token = owner, "token-of-the-tests"
	s.call(http.MethodPost, "/api/v2/setup", map[string]string{
		"username": "admin", "password": "correct-horse", "org": s.Org, "bucket": s.Database, "token": s.Token,
	}, nil)
}

func (s *Influx) dropBucket() {
	s.tb.Helper()
	var found struct {
		Buckets []struct {
			ID string `json:"id"`
		} `json:"buckets"`
	}
	s.call(http.MethodGet, "/api/v2/buckets?name="+url.QueryEscape(s.Database), nil, &found)
	for _, b := range found.Buckets {
		s.call(http.MethodDelete, "/api/v2/buckets/"+b.ID, nil, nil)
	}
}

// createBucket makes the bucket again.
func (s *Influx) createBucket(keep time.Duration) {
	s.tb.Helper()
	var found struct {
		Orgs []struct {
			ID string `json:"id"`
		} `json:"orgs"`
	}
	s.call(http.MethodGet, "/api/v2/orgs?org="+url.QueryEscape(s.Org), nil, &found)
	if len(found.Orgs) != 1 {
		s.tb.Fatalf("%d organisations", len(found.Orgs))
	}
	s.call(http.MethodPost, "/api/v2/buckets", map[string]any{
		"name": s.Database, "orgID": found.Orgs[0].ID,
		"retentionRules": []map[string]any{{"type": "expire", "everySeconds": int(keep.Seconds())}},
	}, nil)
}

// call calls the server's API. An error fails the test.
func (s *Influx) call(method, path string, send, receive any) {
	s.tb.Helper()
	body, err := json.Marshal(send)
	if err != nil {
		s.tb.Fatal(err)
	}
	request, err := http.NewRequestWithContext(s.tb.Context(), method, s.URL+path, bytes.NewReader(body))
	if err != nil {
		s.tb.Fatal(err)
	}
	s.authorize(request)
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.tb.Fatal(err)
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode/100 == 2 && receive != nil {
		err = json.Unmarshal(said, receive)
	}
	if err != nil || response.StatusCode/100 != 2 {
		s.tb.Fatalf("%s %s: %s: %s (%v)", method, path, response.Status, said, err)
	}
}
