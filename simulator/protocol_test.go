package simulator

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestProtocols(t *testing.T) {
	config, ca, err := SelfSigned(time.Now(), "simulator.test", "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	for _, c := range []struct {
		served string
		tls    bool
		spoken string // by the client
		major  int    // 0: they cannot connect
	}{
		{"1.1", false, "1.1", 1}, {"2", false, "2", 2}, {"any", false, "1.1", 1}, {"any", false, "2", 2},
		{"1.1", false, "2", 0}, {"2", false, "1.1", 0},
		{"1.1", true, "1.1", 1}, {"2", true, "2", 2}, {"any", true, "1.1", 1}, {"any", true, "2", 2},
		{"1.1", true, "2", 0}, {"2", true, "1.1", 0},
	} {
		served := fast()
		served.Protocol.HTTP = c.served
		if c.tls {
			served.Protocol.TLS = config
		}
		p := start(t, served)
		client := Protocol{HTTP: c.spoken, TLS: served.Protocol.TLS}
		p.client.Transport = &http.Transport{Protocols: client.protocols(),
			TLSClientConfig: &tls.Config{RootCAs: roots}}
		for name, a := range asks {
			resp, err := p.ask(t.Context(), 0, a.path, "r", a.body)
			if (err == nil) != (c.major > 0) {
				t.Errorf("%+v: %v", c, err)
			}
			if err != nil {
				break
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			want := handled(t, fast(), a.path, a.body)
			if err != nil || resp.ProtoMajor != c.major || withoutTimes(string(body)) != want {
				t.Errorf("%+v: %s: HTTP/%d, %v, %q", c, name, resp.ProtoMajor, err, body)
			}
		}
		p.stop()
	}
}

func TestSelfSigned(t *testing.T) {
	config, _, err := SelfSigned(time.Now(), "simulator.test", "192.0.2.1", "")
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(config.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"localhost", "127.0.0.1", "::1", "simulator.test", "192.0.2.1"} {
		if err := leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	if err := leaf.VerifyHostname("elsewhere.test"); err == nil ||
		strings.Contains(leaf.Subject.String(), "elsewhere") {
		t.Error("it is good for elsewhere, too")
	}
}
