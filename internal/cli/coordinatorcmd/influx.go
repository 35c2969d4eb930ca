package coordinatorcmd

import (
	"errors"
	"log/slog"

	"github.com/spate-load/spate/aggregate/sink/delivery"
	"github.com/spate-load/spate/aggregate/sink/influx"
)

// Influx says to which InfluxDB merged results are written.
type Influx struct {
	Server `with:"KIND=influx|ENV=INFLUX|SENDS=write merged results to the InfluxDB, or VictoriaMetrics, at this"`
	Org    string `flag:"influx-org" help:"InfluxDB organisation (InfluxDB 2 only)"`
	Bucket string `flag:"influx-bucket" help:"InfluxDB bucket (InfluxDB 1.8: database/retention-policy; InfluxDB 3: database)"`
}

// Kind returns "influx".
func (i *Influx) Kind() string { return influx.Kind }

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
