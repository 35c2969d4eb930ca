package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/clock"
)

// client sends one request and reads its answer. Implementations are safe for concurrent use.
type client interface {
	// do blocks until the answer has ended. It counts frames, and passes their times on.
	do(ctx context.Context, t *taker) error
	close()
}

func newClient(s *settings) (client, error) {
	switch s.client {
	case "stream", "packets":
		c, err := stream.New(stream.Config{Endpoints: []string{s.endpoint}, Model: "m", RequestTimeout: forever,
			Connection: wire.Settings{PacketTimes: s.client == "packets", HTTP2: s.http2, InsecureSkipVerify: true}})
		return &spate{client: c, body: s.body()}, err
	case "nethttp", "json":
		t := &http.Transport{MaxIdleConnsPerHost: s.streams, DisableCompression: true, Protocols: new(http.Protocols),
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the endpoint is on loopback
		t.Protocols.SetHTTP1(!s.http2)
		t.Protocols.SetHTTP2(s.http2)
		t.Protocols.SetUnencryptedHTTP2(s.http2)
		return &usual{transport: t, url: s.endpoint + chatPath, body: s.body(), decode: s.client == "json"}, nil
	}
	return nil, fmt.Errorf("--client %q: want stream, packets, nethttp or json", s.client)
}

// spate is Spate's stream client.
type spate struct {
	client *stream.Client
	body   []byte
}

func (c *spate) do(ctx context.Context, t *taker) error {
	c.client.Do(ctx, stream.Request{Body: c.body, OnToken: t.token, OnFrame: t.frame}, &t.observation)
	if err := t.observation.Err; err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

func (c *spate) close() { c.client.Close() }

// usual is what most clients are made of: net/http's Transport, lines by a bufio.Scanner, times by the program's clock,
// and with decode encoding/json for each frame.
type usual struct {
	transport *http.Transport
	url       string
	body      []byte
	decode    bool
}

// chunk is a frame as a usual client decodes it.
type chunk struct {
	Choices []struct {
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Sent int64 `json:"sent_ns"`
}

func (c *usual) do(ctx context.Context, t *taker) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(c.body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return ended(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		data, found := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !found {
			continue
		}
		if err := c.take(data, t); err != nil {
			return err
		}
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return ended(ctx, lines.Err())
}

// take processes one frame.
func (c *usual) take(data []byte, t *taker) error {
	if strings.HasPrefix(string(data), "[DONE]") {
		return nil
	}
	at := clock.Now()
	if c.decode {
		var f chunk
		if err := json.Unmarshal(data, &f); err != nil {
			return err
		}
		at = clock.Now() // such clients read the clock after they have decoded the frame
	}
	t.frame(data, at, at)
	t.token(at, 1)
	return nil
}

func (c *usual) close() { c.transport.CloseIdleConnections() }

// ended returns the error of an answer, or nil if the measurement has ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}
