package simulator

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestChunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var wire, want []byte
		for _, n := range rapid.SliceOf(rapid.OneOf(rapid.IntRange(1, 40), rapid.IntRange(1, 100_000))).Draw(t,
			"lengths") {
			data := bytes.Repeat([]byte{byte(n)}, n)
			want = append(want, data...)
			wire = append(wire, chunk(append(make([]byte, chunkHead), data...))...)
		}
		wire = append(wire, "0\r\n\r\n"...)
		got, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(wire)))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes of %d, %v", len(got), len(want), err)
		}
	})
}

// A client that reads late gets everything, in order: the handler sends what did not fit into the socket at once.
func TestClientThatReadsLate(t *testing.T) {
	config := fast()
	config.Model.DecodeStep = 0
	config.Truth.Keep = true
	p := start(t, config)
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.URLs()[0], "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const tokens = 100_000
	body := fmt.Sprintf(`{"model":"m","prompt":"a","max_tokens":%d,"stream":true}`, tokens)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nX-Request-Id: r\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", completionsPath, len(body), body)
	p.metric(0, fmt.Sprintf(`vllm:generation_tokens_total{engine="0",model_name="simulated"} %d`, tokens))
	raw, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
	got, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(rest)))
	if err != nil {
		t.Fatal(err)
	}
	if want := handled(t, config, completionsPath, body); withoutTimes(string(got)) != want {
		t.Errorf("%d bytes, want %d, or they differ", len(got), len(want))
	}
	p.stop()
	if r := p.Records()[0]; r.OutputTokens != tokens || r.Cancelled || r.FinishReason != finishLength {
		t.Errorf("recorded %+v", r)
	}
}

// A connection is reused for the next request after frames were written past net/http.
func TestConnectionsAreKept(t *testing.T) {
	p := start(t, fast())
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.URLs()[0], "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i := range 3 {
		end := ""
		if i == 2 {
			end = "Connection: close\r\n"
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s", completionsPath, end,
			len(fourTokens), fourTokens)
	}
	raw, err := io.ReadAll(conn)
	if n := bytes.Count(raw, []byte("[DONE]\n\n\r\n0\r\n\r\n")); err != nil || n != 3 {
		t.Errorf("%d whole answers of 3, %v", n, err)
	}
}
