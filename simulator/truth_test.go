package simulator

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/simulator/api"
	"github.com/spate-load/spate/simulator/config"
	"github.com/spate-load/spate/simulator/wire"
)

// The stamps in the frames, the record and the client's own clock agree, and no token is sent before the model has it.
func TestTruth(t *testing.T) {
	var log bytes.Buffer
	cfg := config.Default()
	cfg.Model = config.Model{PrefillTokensPerSecond: 1000, DecodeStep: 2 * time.Millisecond, MaxRunning: 8}
	cfg.Truth = config.Truth{Stamp: true, Keep: true, Tokens: true, Log: &log}
	p := start(t, cfg)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() { readStamped(p, fmt.Sprint("r", i)) })
	}
	group.Wait()
	p.stop()
	records := p.Records()
	if len(records) != 8 {
		t.Fatalf("%d records", len(records))
	}
	for _, r := range records {
		if r.OutputTokens != 10 || len(r.Tokens) != 10 || r.PromptTokens != 3 || r.FinishReason != api.FinishLength ||
			r.Status != 200 {
			t.Errorf("recorded %+v", r)
		}
		for i, at := range r.Tokens {
			if due := r.Received.Add(3*time.Millisecond + time.Duration(i)*2*time.Millisecond); at < due {
				t.Errorf("%s: token %d sent %v before the model can have it", r.RequestID, i, due.Sub(at))
			}
		}
		if r.FirstToken != r.Tokens[0] || r.LastToken != r.Tokens[9] || r.Ended < r.LastToken {
			t.Errorf("recorded %+v", r)
		}
	}
	var logged []Record
	for line := range strings.Lines(log.String()) {
		var r Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		logged = append(logged, r)
	}
	if diff := cmp.Diff(records, logged); diff != "" {
		t.Error(diff)
	}
}

// readStamped sends a request of 3:10 and checks its stamps against the client's clock and the record.
func readStamped(p *peer, id string) {
	asked := clock.Now()
	resp, err := p.ask(p.t.Context(), 0, chatPath, id,
		`{"model":"m","messages":[{"content":"a b c"}],"max_tokens":10,"stream":true,"stream_options":{"include_usage":true}}`)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer resp.Body.Close()
	var stamps []clock.Instant
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		_, stamp, found := strings.Cut(lines.Text(), `"sent_ns":`)
		if !found {
			continue
		}
		at, err := strconv.ParseInt(strings.TrimSuffix(stamp, "}"), 10, 64)
		if err != nil {
			p.t.Error(err)
		}
		if now := clock.Now(); clock.Instant(at) > now || clock.Instant(at) < asked {
			p.t.Errorf("%s: stamped %d, asked at %d and read at %d", id, at, asked, now)
		}
		stamps = append(stamps, clock.Instant(at))
	}
	for _, r := range p.Records() {
		if r.RequestID == id {
			// The role frame before and the usage frame after are not tokens.
			if diff := cmp.Diff(stamps[1:len(stamps)-1], r.Tokens); diff != "" {
				p.t.Errorf("%s: frames and record differ: %s", id, diff)
			}
			return
		}
	}
	p.t.Errorf("%s: the response has ended and there is no record", id)
}

type brokenLog struct{ writes int }

func (b *brokenLog) Write([]byte) (int, error) {
	b.writes++
	return 0, errors.New("disk full")
}

func TestBrokenLogFailsNoRequest(t *testing.T) {
	log := &brokenLog{}
	cfg := fast()
	cfg.Truth = config.Truth{Log: log}
	p := start(t, cfg)
	for range 3 {
		if status, _ := p.get(completionsPath, "", fourTokens); status != 200 {
			t.Errorf("status %d", status)
		}
	}
	p.stop()
	if log.writes != 3 {
		t.Errorf("%d writes for 3 requests", log.writes)
	}
}

func TestRecordOmitsMissingInstants(t *testing.T) {
	cfg := fast()
	var log bytes.Buffer
	cfg.Truth.Log = &log
	p := start(t, cfg)
	p.get(completionsPath, "bad", `{`)
	p.stop()
	want := `{"request_id":"bad","endpoint":0,"replica":0,"status":400,"stream":false,"prompt_tokens":0,"output_tokens":0,"arrived_ns":`
	if got := log.String(); !strings.HasPrefix(got, want) || strings.Contains(got, "token_ns") {
		t.Errorf("logged %s", got)
	}
}

// pause is how long a sender waits. A correct stamp is off by far less.
const pause = 80 * time.Millisecond

// A request counts from its last byte on, and each request of a reused connection from its own last byte.
func TestArrivalOfRequests(t *testing.T) {
	cfg := fast()
	cfg.Truth.Keep = true
	p := start(t, cfg)
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.URLs()[0], "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var from, to []clock.Instant
	for range 3 {
		begin, end := fourTokens[:10], fourTokens[10:]
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", completionsPath,
			len(fourTokens), begin)
		<-time.After(pause / 4)
		from = append(from, clock.Now())
		io.WriteString(conn, end)
		to = append(to, clock.Now().Add(pause))
		if err := readEnd(conn); err != nil {
			t.Fatal(err)
		}
	}
	p.stop()
	for i, r := range p.Records() {
		if r.Arrived < from[i] || r.Arrived > to[i] || r.Arrived > r.Received {
			t.Errorf("request %d was sent from %d to %d: %+v", i, from[i], to[i], r)
		}
		if runtime.GOOS == "linux" && i == 2 && r.ArrivedBy != wire.ArrivalByKernel {
			t.Errorf("it arrived by the clock of the %s", r.ArrivedBy)
		}
	}
}

// readEnd reads to the end of a chunked answer.
func readEnd(conn net.Conn) error {
	var all []byte
	var b [1024]byte
	for !bytes.HasSuffix(all, []byte("\r\n0\r\n\r\n")) {
		n, err := conn.Read(b[:])
		if err != nil {
			return err
		}
		all = append(all, b[:n]...)
	}
	return nil
}

// If the stamp of a read may belong to another request, or no stamps were requested, the record has the program's time
// and says so.
func TestArrivalByProgram(t *testing.T) {
	cfg := fast()
	cfg.Truth.Keep = true
	cfg.Protocol.HTTP = "any"
	cert, ca, err := config.SelfSigned(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Protocol.TLS = cert
	p := start(t, cfg)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	two := config.Protocol{HTTP: "2", TLS: cert}
	p.client.Transport = &http.Transport{Protocols: two.Protocols(), TLSClientConfig: &tls.Config{RootCAs: roots}}
	if status, _ := p.get(completionsPath, "", fourTokens); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	p.stop()
	for _, r := range p.Records() {
		if r.ArrivedBy != wire.ArrivalByProgram || r.Arrived != r.Received {
			t.Errorf("recorded %+v", r)
		}
	}
}
