// Package settings gives every Spate command the same order of settings: flags, then SPATE_* environment variables,
// then the configuration file, then defaults. Only commands use it; components take plain structs.
package settings

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/spate-load/spate/internal/reason"
)

// Flag is the flag that names the configuration file.
const Flag = "config"

// AddFlag adds the --config flag to a root command.
func AddFlag(root *cobra.Command) {
	root.PersistentFlags().String(Flag, "",
		"configuration `file` (default: ./spate.yaml, then spate/config.yaml in the user's configuration folder)")
}

// typed marks flags that are no settings.
const typed = "spate_typed"

// TypedOnly marks flags that count on the command line alone: they describe one test, not the program, and the
// environment may hold something else under their names, such as an API key in SPATE_API_KEY.
func TypedOnly(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		annotate(flags.Lookup(name), typed)
	}
}

func isTypedOnly(f *pflag.Flag) bool { return annotated(f, typed) }

// configured marks flags whose value Apply has set.
const configured = "spate_configured"

// Typed says whether a flag was given on the command line. Changed of the flag set is true for those, too, that the
// environment or the configuration file has set: what is there for other commands and other days contradicts nothing
// that a person types.
func Typed(flags *pflag.FlagSet, name string) bool {
	f := flags.Lookup(name)
	return f != nil && f.Changed && !annotated(f, configured)
}

// Prefer settles that of two settings which exclude one another one was typed and the other comes from the environment
// or the configuration file: the one that was typed counts, and the other is empty. It reports which was left out, ""
// if none was.
func Prefer(flags *pflag.FlagSet, a, b string) (leftOut string) {
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		other := flags.Lookup(pair[1])
		if !Typed(flags, pair[0]) || !other.Changed || Typed(flags, pair[1]) {
			continue
		}
		if list, is := other.Value.(pflag.SliceValue); is {
			_ = list.Replace(nil) // no words: nothing to parse
		} else {
			_ = other.Value.Set(other.DefValue) // as it was to begin with
		}
		return pair[1]
	}
	return ""
}

func annotate(f *pflag.Flag, mark string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[mark] = []string{}
}

func annotated(f *pflag.Flag, mark string) bool { _, is := f.Annotations[mark]; return is }

// Apply fills in each flag of cmd that was not given on the command line: from the environment variable SPATE_<FLAG>,
// else from the configuration file. A key of the file that no flag of the whole program has is an error: it is a typing
// mistake.
func Apply(cmd *cobra.Command) error {
	v := viper.New()
	v.SetEnvPrefix("SPATE")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	if err := readFile(v, cmd); err != nil {
		return err
	}
	var errs []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Changed && f.Name != Flag && !isTypedOnly(f) && v.IsSet(f.Name) {
			errs = append(errs, set(cmd.Flags(), f, v))
		}
	})
	return errors.Join(errs...)
}

// set hands one value on to its flag, so that it is parsed and checked as if it had been typed.
func set(flags *pflag.FlagSet, f *pflag.Flag, v *viper.Viper) error {
	value := v.GetString(f.Name)
	if list, ok := v.Get(f.Name).([]any); ok {
		words := make([]string, len(list))
		for i, item := range list {
			words[i] = fmt.Sprint(item)
		}
		value = strings.Join(words, ",")
	}
	if err := flags.Set(f.Name, value); err != nil {
		return fmt.Errorf("setting %s (from SPATE_%s or the configuration file): %w",
			f.Name, strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")), err)
	}
	annotate(f, configured)
	return nil
}

// readFile reads the configuration file, if there is one. One that was named must be there.
func readFile(v *viper.Viper, cmd *cobra.Command) error {
	path, named := filePath(cmd)
	if path == "" {
		return nil
	}
	v.SetConfigFile(path)
	if strings.TrimPrefix(filepath.Ext(path), ".") == "" {
		v.SetConfigType("yaml")
	}
	if err := v.ReadInConfig(); err != nil {
		if !named && errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("configuration file %s: %w", path, err)
	}
	return checkKeys(path, v.AllKeys(), cmd.Root())
}

// filePath returns the configuration file to read and whether a person named it.
func filePath(cmd *cobra.Command) (path string, named bool) {
	if path, _ := cmd.Flags().GetString(Flag); path != "" {
		return path, true
	}
	if path := os.Getenv("SPATE_CONFIG"); path != "" {
		return path, true
	}
	candidates := []string{"spate.yaml"}
	if dir, err := os.UserConfigDir(); err == nil {
		candidates = append(candidates, filepath.Join(dir, "spate", "config.yaml"))
	}
	for _, path := range candidates {
		if _, err := os.Stat(path); err == nil {
			return path, false
		}
	}
	return "", false
}

// checkKeys refuses keys that are no flag of any command of the program.
func checkKeys(path string, keys []string, root *cobra.Command) error {
	known := map[string]bool{}
	add := func(f *pflag.Flag) { known[f.Name] = known[f.Name] || !isTypedOnly(f) }
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		c.Flags().VisitAll(add)
		c.PersistentFlags().VisitAll(add)
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
	slices.Sort(keys)
	var errs []error
	for _, key := range keys {
		if !known[key] {
			errs = append(errs, fmt.Errorf("configuration file %s: unknown setting %q: settings are named like the flags; what describes a test goes into a plan", path, key))
		}
	}
	return errors.Join(errs...)
}

// readable writes a value of a log line for people: an enum of the protocol as its word (outcome=failed, not 2), an
// error without gRPC's codes.
func readable(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case protoreflect.Enum:
		a.Value = slog.StringValue(enumWord(v))
	case error:
		a.Value = slog.StringValue(reason.Plain(v.Error()))
	}
	return a
}

// enumWord is the name of an enum's value without what the names of its values have in common.
func enumWord(e protoreflect.Enum) string {
	values := e.Descriptor().Values()
	value := values.ByNumber(e.Number())
	if value == nil {
		return fmt.Sprint(e.Number()) // of a newer protocol
	}
	common := ""
	if first := values.ByNumber(0); first != nil {
		common = strings.TrimSuffix(string(first.Name()), "UNSPECIFIED")
	}
	return strings.ToLower(strings.TrimPrefix(string(value.Name()), common))
}

// Logger makes the structured logger of a command. Level is debug, info, warn or error; format is text or json.
func Logger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level %q: want debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: l, ReplaceAttr: readable}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("log format %q: want text or json", format)
}
