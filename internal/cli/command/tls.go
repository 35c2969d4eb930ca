package command

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spate-load/spate/certs"
)

// TLS holds the certificates by which the programs of a cluster authenticate each other.
type TLS struct{ certs.Files }

// soon is how long before its end a certificate causes a warning.
const soon = 14 * 24 * time.Hour

// Check finds mistakes in the flags and their files, and warns about a certificate that expires soon. If none of the
// flags is given, Check returns nil.
func (t *TLS) Check(logger *slog.Logger) error {
	if !t.Given() {
		return nil
	}
	if t.Authority == "" || t.Cert == "" || t.Key == "" {
		return errors.New("--tls-ca, --tls-cert and --tls-key need one another: give all three; `spate certs --help` says how to make the files")
	}
	_, until, err := t.Files.Check(time.Now())
	if err != nil {
		return fmt.Errorf("--tls-cert: %w", err)
	}
	if left := time.Until(until); left < soon {
		logger.Warn("certificate expires soon: make a new one with spate certs", "file", t.Cert,
			"ends", until.Format(time.DateTime))
	}
	return nil
}

// Dial returns the credentials with which a program of a role connects to a coordinator. Without certificates they are
// plaintext.
func (t *TLS) Dial(role certs.Role) (credentials.TransportCredentials, error) {
	if !t.Given() {
		return insecure.NewCredentials(), nil
	}
	return t.Files.Dial(role)
}
