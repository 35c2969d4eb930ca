package settings

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/influx"
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

// Opener checks the settings and returns what opens the sink of a run, whose spool lies in the run's directory. It is nil if
// nothing is to be written. A server that does not answer, or that refuses, is logged and no error: it changes no result, and it
// may be well again when the run has points to write.
func (i *Influx) Opener(ctx context.Context, logger *slog.Logger) (func(runDir string) (sink.Sink, error), error) {
	if err := i.Validate(); err != nil || i.URL == "" {
		return nil, err
	}
	token, err := Secret(i.Token)
	if err != nil {
		return nil, fmt.Errorf("--influx-token: %w", err)
	}
	config := influx.Config{URL: i.URL, Token: token, Org: i.Org, Bucket: i.Bucket, Spool: "unused", Log: logger}
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if err := influx.Check(ctx, config); err != nil {
		logger.Warn("InfluxDB does not take points now; the run goes on and they are kept for it", "error", err)
	}
	return func(runDir string) (sink.Sink, error) {
		config := config
		config.Spool = filepath.Join(runDir, "influx.spool")
		return influx.New(config)
	}, nil
}
