package delivery

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
)

// get sends a request with an Authorization header, and returns the answer's status and body.
func get(t *testing.T, url, authorization string) (status int, said string, err error) {
	t.Helper()
	client := NewClient(nil, 0)
	t.Cleanup(client.CloseIdleConnections)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", authorization)
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}

// serve starts a server of a handler.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// Of an answer without end, plain or compressed, 64 KiB are read.
func TestAnswersWithoutEnd(t *testing.T) {
	zeros := make([]byte, 1<<20)
	endless := func(w io.Writer) {
		for {
			if _, err := w.Write(zeros); err != nil {
				return
			}
		}
	}
	for name, handler := range map[string]http.HandlerFunc{
		"plain": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			endless(w)
		},
		"gzip": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(http.StatusBadRequest)
			endless(gzip.NewWriter(w))
		},
	} {
		if status, said, err := get(t, serve(t, handler), "Token t0ken"); err != nil || status != 400 || len(said) != maxAnswer {
			t.Errorf("%s: status %d, %d bytes, error %v", name, status, len(said), err)
		}
	}
}

// A redirect is not followed, and the message names where it leads.
func TestRedirects(t *testing.T) {
	var followed bool
	other := serve(t, func(http.ResponseWriter, *http.Request) { followed = true })
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other+"/write?"+r.Header.Get("Authorization"), http.StatusFound)
	})
	_, _, err := get(t, url, "Token-0123")
	if err == nil || !strings.Contains(err.Error(), "it redirects to "+other+"/write?***: give that URL (302)") || followed {
		t.Errorf("followed: %v, error %v", followed, err)
	}
}

// A server that repeats what it was sent does not bring secrets into messages, in whichever form it repeats them.
func TestEchoedSecretsAreMasked(t *testing.T) {
	const password = "correct horse+battery"
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("anna:"+password))
	for authorization, echo := range map[string]string{
		"Token abcdef":  "bad header Authorization: Token abcdef",
		"Bearer abcdef": `no such token "abcdef", in Base64 ` + base64.StdEncoding.EncodeToString([]byte("abcdef")),
		basic:           basic + ", that is anna:" + password + ", password=correct+horse%2Bbattery",
	} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Influxdb-Error", echo)
			http.Error(w, echo, http.StatusUnauthorized)
		})
		_, said, err := get(t, url, authorization)
		for _, secret := range []string{"abcdef", "correct", "battery", basic[6:]} {
			if err != nil || strings.Contains(said, secret) || !strings.Contains(said, "***") {
				t.Errorf("%s: %s (%v)", authorization, said, err)
			}
		}
	}
}

// An excerpt of an answer is one line, and controls no terminal.
func TestExcerpt(t *testing.T) {
	if got := Excerpt([]byte("a\x00\x1b[31m\n\u202eb \xff")); got != "a [31m b" {
		t.Errorf("%q", got)
	}
}

// Why a server cannot be reached is said without Go's words and whatever the request's URL was.
func TestCausesArePlain(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for want, err := range map[string]error{
		"(connection refused)": refused, "(no answer in time)": context.DeadlineExceeded, "(odd)": errors.New("odd"),
	} {
		err = Unreachable("db", "http://a", &url.Error{Op: "Post", URL: "http://a/write", Err: err})
		if got := err.Error(); !strings.HasSuffix(got, "right? "+want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A server with TLS may close a plain connection before its answer is read.
func TestUnreachable(t *testing.T) {
	for of, want := range map[string]string{"http://a read": "is its URL https://?", "http://a write": "is its URL https://?",
		"http://a dial": "is the server up", "https://a read": "is the server up"} {
		at, op, _ := strings.Cut(of, " ")
		err := Unreachable("x", at, &net.OpError{Op: op, Err: net.ErrClosed})
		if !strings.Contains(err.Error(), want) || !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v", of, err)
		}
	}
}
