package wire

import (
	"crypto/tls"
	"io"
	"strings"
	"testing"
)

// A server that speaks plain HTTP answers a TLS client with a status, or by closing the connection.
func TestAdviceForPlainHTTP(t *testing.T) {
	for _, err := range []error{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, io.EOF} {
		if got := withAdvice(err, "a").Error(); !strings.HasSuffix(got, "must start with http://") {
			t.Error(got)
		}
	}
}
