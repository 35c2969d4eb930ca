package settings

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/pflag"

	"github.com/spate-load/spate/aggregate/sink/delivery"
	"github.com/spate-load/spate/aggregate/sink/influx"
	"github.com/spate-load/spate/internal/bounded"
)

// maxAuthorities is the largest size of a file of authorities, in bytes.
const maxAuthorities = 16 << 20

// Influx says where merged results are written. The zero value writes nowhere.
type Influx struct {
	URL, Token, Org, Bucket string

	// CA is a file of authorities that may have signed the server's certificate. Empty: those that this machine trusts.
	CA string
	// Insecure skips the check of the server's certificate.
	Insecure bool
}

// AddFlags adds the --influx-* flags.
func (i *Influx) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&i.URL, "influx-url", "", "write merged results to the InfluxDB, or VictoriaMetrics, at this `URL`")
	flags.StringVar(&i.Token, "influx-token", "",
		"token, or user:password, or where it is: env:NAME or file:PATH; better set SPATE_INFLUX_TOKEN than type it")
	flags.StringVar(&i.Org, "influx-org", "", "InfluxDB organisation (InfluxDB 2 only)")
	flags.StringVar(&i.Bucket, "influx-bucket", "",
		"InfluxDB bucket (InfluxDB 1.8: database/retention-policy; InfluxDB 3: database)")
	flags.StringVar(&i.CA, "influx-ca", "",
		"`file` of the authority that signed the server's certificate, if this machine does not know it")
	flags.BoolVar(&i.Insecure, "influx-insecure", false,
		"do not check the server's certificate: whoever is in between can read the token")
}

// Validate returns an error if settings do not go together.
func (i *Influx) Validate() error {
	secure := strings.HasPrefix(i.URL, "https://")
	switch {
	case i.URL == "" && (i.Org != "" || i.Bucket != ""):
		return errors.New("--influx-org and --influx-bucket need --influx-url")
	case i.URL != "" && i.Bucket == "":
		return errors.New("--influx-url needs --influx-bucket")
	case i.CA != "" && i.Insecure:
		return errors.New("--influx-ca and --influx-insecure do not go together: check the server's certificate or do not")
	case (i.CA != "" || i.Insecure) && !secure:
		return errors.New("--influx-ca and --influx-insecure are for an --influx-url that begins with https://")
	}
	return nil
}

// Given reports whether there is a database to write to.
func (i *Influx) Given() bool { return i.URL != "" }

// Open resolves and checks the settings. The caller closes the database.
func (i *Influx) Open(logger *slog.Logger) (delivery.Database, error) {
	if err := i.Validate(); err != nil {
		return nil, err
	}
	token, err := Secret(i.Token)
	if err != nil {
		return nil, fmt.Errorf("--influx-token: %w", err)
	}
	config := influx.Config{URL: i.URL, Token: token, Org: i.Org, Bucket: i.Bucket}
	if config.TLS, err = i.tls(); err != nil {
		return nil, err
	}
	if i.Insecure {
		logger.Warn("the certificate of InfluxDB is not checked: whoever is in between can read the token",
			"url", i.URL)
	}
	return influx.New(config)
}

// tls returns how to check the server's certificate, or nil for the machine's trusted authorities.
func (i *Influx) tls() (*tls.Config, error) {
	switch {
	case i.Insecure:
		//nolint:gosec // asked for by name
		return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, nil
	case i.CA == "":
		return nil, nil //nolint:nilnil // the default of the client
	}
	pem, err := bounded.ReadFile(i.CA, maxAuthorities)
	if err != nil {
		return nil, fmt.Errorf("--influx-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--influx-ca %s: no certificate in PEM form is in it", i.CA)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, nil
}
