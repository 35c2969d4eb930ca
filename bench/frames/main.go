// Command frames is a minimal client of streams. It sends the same request again and again on a number of streams,
// reads the answers, and reports what a frame and a request cost this process in CPU time, and how far its times of
// frames are from the true times that the simulator writes into them. --client selects Spate's stream client, the same
// with packet times, or what most programs are made of: net/http with a bufio.Scanner, optionally with encoding/json.
// bench/floor is the same in C, without decoding. Shell scripts in bench/ call it. It writes no result files, and sends
// load only to loopback.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"
)

// settings are the flags.
type settings struct {
	client   string
	endpoint string
	streams  int
	tokens   uint
	warmup   time.Duration
	length   time.Duration
	print    bool
	http2    bool
}

func main() {
	var s settings
	flag.StringVar(&s.client, "client", "stream", "`client`: stream, packets (stream with packet times), nethttp or json")
	flag.StringVar(&s.endpoint, "endpoint", "http://127.0.0.1:18100", "`URL` of the simulator")
	flag.IntVar(&s.streams, "streams", 1000, "`requests` under way at a time")
	flag.UintVar(&s.tokens, "tokens", 1_000_000,
		"`tokens` of each answer: 1 for short requests; one that ends is followed by the next")
	flag.DurationVar(&s.warmup, "warmup", 2*time.Second, "`time` from the first frame of all streams to the measuring")
	flag.DurationVar(&s.length, "length", 5*time.Second, "`time` that is measured")
	flag.BoolVar(&s.http2, "http2", false, "speak HTTP/2; with an https endpoint by TLS, whose certificate is not checked")
	flag.BoolVar(&s.print, "print-request", false, "print the whole HTTP request instead, for bench/floor")
	flag.Parse()
	if err := s.run(); err != nil {
		fmt.Fprintln(os.Stderr, "frames:", err)
		os.Exit(1)
	}
}

func (s *settings) run() error {
	if err := s.check(); err != nil {
		return err
	}
	c, err := newClient(s)
	if err != nil {
		return err
	}
	defer c.close()
	if s.print {
		return s.printRequest()
	}
	return measure(context.Background(), s, c)
}

// check refuses invalid numbers of streams and tokens, and endpoints that are not on this machine.
func (s *settings) check() error {
	if s.streams < 1 || s.tokens < 1 {
		return errors.New("--streams and --tokens: want at least 1")
	}
	u, err := url.Parse(s.endpoint)
	if err != nil {
		return fmt.Errorf("--endpoint: %w", err)
	}
	if ip := net.ParseIP(u.Hostname()); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("--endpoint %s: want an address of loopback", s.endpoint)
	}
	return nil
}

// printRequest prints the request as it is sent.
func (s *settings) printRequest() error {
	u, err := url.Parse(s.endpoint)
	if err != nil {
		return err
	}
	b := s.body()
	_, err = fmt.Printf("POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: spate\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n"+
		"Content-Length: %d\r\n\r\n%s", chatPath, u.Host, len(b), b)
	return err
}

const chatPath = "/v1/chat/completions"

// body returns the request body that all clients send.
func (s *settings) body() []byte {
	return fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":"one two three"}],"stream":true,"ignore_eos":true,`+
		`"max_tokens":%d,"stream_options":{"include_usage":true}}`, s.tokens)
}
