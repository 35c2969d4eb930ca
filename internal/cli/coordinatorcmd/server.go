package coordinatorcmd

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/files"
)

// maxAuthorities is the largest size of a file of authorities, in bytes.
const maxAuthorities = 16 << 20

// Server says how to reach a database's server. In its tags, KIND is the kind of the database, ENV the same in the
// names of variables, and SENDS what is done with results.
type Server struct {
	// URL is the server's URL. Empty: none.
	URL string `flag:"KIND-url" help:"SENDS <URL>"`
	// Token is a secret or a reference to one.
	Token string `flag:"KIND-token" help:"token, or user:password, or where it is: env:NAME or file:PATH; better set SPATE_ENV_TOKEN than type it"`
	// CA is a file of authorities that may have signed the server's certificate. Empty: those that this machine trusts.
	CA string `flag:"KIND-ca" help:"<file> of the authority that signed the server's certificate, if this machine does not know it"`
	// Insecure skips the check of the server's certificate.
	Insecure bool `flag:"KIND-insecure" help:"do not check the server's certificate: anyone on the network path can read the token"`
}

// Given reports whether there is a server to write to.
func (s *Server) Given() bool { return s.URL != "" }

// validate returns an error if settings do not go together.
func (s *Server) validate(kind string) error {
	switch {
	case s.CA != "" && s.Insecure:
		return fmt.Errorf("--%s-ca and --%[1]s-insecure do not go together: check the server's certificate or do not", kind)
	case (s.CA != "" || s.Insecure) && !strings.HasPrefix(s.URL, "https://"):
		return fmt.Errorf("--%s-ca and --%[1]s-insecure are for an --%[1]s-url that begins with https://", kind)
	}
	return nil
}

// resolve returns the token, and how to check the server's certificate: nil for the machine's trusted authorities.
func (s *Server) resolve(kind string, logger *slog.Logger) (token string, check *tls.Config, err error) {
	if token, err = command.Secret(s.Token); err != nil {
		return "", nil, fmt.Errorf("--%s-token: %w", kind, err)
	}
	if s.Insecure {
		logger.Warn("the server's certificate is not checked: anyone on the network path can read the token",
			"url", s.URL)
		//nolint:gosec // asked for by name
		return token, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, nil
	}
	if s.CA == "" {
		return token, nil, nil
	}
	pem, err := files.ReadFile(s.CA, maxAuthorities)
	if err != nil {
		return "", nil, fmt.Errorf("--%s-ca: %w", kind, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return "", nil, fmt.Errorf("--%s-ca %s: the file has no certificate in PEM form", kind, s.CA)
	}
	return token, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, nil
}
