package sinks

import (
	"errors"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/spate-load/spate/aggregate/sink/delivery"
	"github.com/spate-load/spate/aggregate/sink/influx"
)

// Influx says to which InfluxDB merged results are written.
type Influx struct {
	Server
	Org, Bucket string
}

// Kind returns "influx".
func (i *Influx) Kind() string { return influx.Kind }

// AddFlags adds the --influx-* flags.
func (i *Influx) AddFlags(flags *pflag.FlagSet) {
	i.addFlags(flags, influx.Kind, "write merged results to the InfluxDB, or VictoriaMetrics, at this `URL`")
	flags.StringVar(&i.Org, "influx-org", "", "InfluxDB organisation (InfluxDB 2 only)")
	flags.StringVar(&i.Bucket, "influx-bucket", "",
		"InfluxDB bucket (InfluxDB 1.8: database/retention-policy; InfluxDB 3: database)")
}

// Validate returns an error if settings do not go together.
func (i *Influx) Validate() error {
	switch {
	case i.URL == "" && (i.Org != "" || i.Bucket != ""):
		return errors.New("--influx-org and --influx-bucket need --influx-url")
	case i.URL != "" && i.Bucket == "":
		return errors.New("--influx-url needs --influx-bucket")
	}
	return i.validate(influx.Kind)
}

// Open resolves settings that Validate has checked. The caller closes the database.
func (i *Influx) Open(logger *slog.Logger) (delivery.Database, error) {
	token, check, err := i.resolve(influx.Kind, logger)
	if err != nil {
		return nil, err
	}
	return influx.New(influx.Config{URL: i.URL, Token: token, Org: i.Org, Bucket: i.Bucket, TLS: check})
}
