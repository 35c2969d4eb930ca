package config

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"
)

func TestSelfSigned(t *testing.T) {
	cfg, _, err := SelfSigned(time.Now(), "simulator.test", "192.0.2.1", "")
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(cfg.Certificates[0].Certificate[0])
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
