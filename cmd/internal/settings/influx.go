package settings

import (
	"errors"

	"github.com/spf13/pflag"
)

// Influx says where merged results are written while a run goes on. The zero value writes nowhere.
type Influx struct {
	URL, Token, Org, Bucket string
}

// AddFlags adds the --influx-* flags.
func (i *Influx) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&i.URL, "influx-url", "", "write merged results to the InfluxDB at this `URL` while the run goes on")
	flags.StringVar(&i.Token, "influx-token", "", "InfluxDB token, or where it is: env:NAME or file:PATH; better set SPATE_INFLUX_TOKEN than type it")
	flags.StringVar(&i.Org, "influx-org", "", "InfluxDB organisation")
	flags.StringVar(&i.Bucket, "influx-bucket", "", "InfluxDB bucket (InfluxDB 1.8: database/retention-policy)")
}

// Validate finds settings that do not go together.
func (i *Influx) Validate() error {
	switch {
	case i.URL == "" && (i.Org != "" || i.Bucket != ""):
		return errors.New("--influx-org and --influx-bucket need --influx-url")
	case i.URL != "" && i.Bucket == "":
		return errors.New("--influx-url needs --influx-bucket")
	}
	return nil
}
