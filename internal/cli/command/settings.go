package command

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

func isTypedOnly(f *pflag.Flag) bool { return annotated(f, typed) }

// configured marks flags whose value Apply has set.
const configured = "spate_configured"

// Typed reports whether a flag was given on the command line. Changed of the flag set is true also for flags set by the
// environment or the configuration file. Those settings are for all commands, so they do not conflict with what a
// person types.
func Typed(flags *pflag.FlagSet, name string) bool {
	f := flags.Lookup(name)
	return f != nil && f.Changed && !annotated(f, configured)
}

// Prefer resolves a conflict between two settings that exclude one another, if one was typed and the other comes from
// the environment or the configuration file. The typed setting wins, and the other is reset to its default. Prefer
// returns the name of the setting that was reset, or "" if none was.
func Prefer(flags *pflag.FlagSet, a, b string) (leftOut string) {
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		other := flags.Lookup(pair[1])
		if !Typed(flags, pair[0]) || !other.Changed || Typed(flags, pair[1]) {
			continue
		}
		if list, is := other.Value.(pflag.SliceValue); is {
			_ = list.Replace(nil) // no words: nothing to parse
		} else {
			_ = other.Value.Set(other.DefValue) // its default
		}
		return pair[1]
	}
	return ""
}

func annotate(f *pflag.Flag, mark string, values ...string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[mark] = values
}

func annotated(f *pflag.Flag, mark string) bool { _, is := f.Annotations[mark]; return is }

// Apply sets each flag of cmd that was not given on the command line: from the environment variable SPATE_<FLAG>, or
// else from the configuration file. A key in the file that is not a flag of any command is an error: it is a typing
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
		switch {
		case f.Changed && isTypedOnly(f) && f.Value.String() == "": // such as a variable of a script that is not set
			errs = append(errs, fmt.Errorf("--%s: the value is empty: leave the flag out if there is none", f.Name))
		case !f.Changed && f.Name != Flag && !isTypedOnly(f) && v.IsSet(f.Name):
			errs = append(errs, set(cmd.Flags(), f, v))
		}
	})
	return errors.Join(errs...)
}

// set passes one value to its flag, so that it is parsed and checked as if it had been typed.
func set(flags *pflag.FlagSet, f *pflag.Flag, v *viper.Viper) error {
	value := v.GetString(f.Name)
	if _, list := v.Get(f.Name).([]any); list {
		value = strings.Join(v.GetStringSlice(f.Name), ",")
	}
	if err := flags.Set(f.Name, value); err != nil {
		return fmt.Errorf("setting %s (from SPATE_%s or the configuration file): %w",
			f.Name, strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")), err)
	}
	annotate(f, configured)
	return nil
}

// readFile reads the configuration file, if there is one. A file that a person named must exist.
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
	if user, err := UserFile(); err == nil {
		candidates = append(candidates, user)
	}
	for _, path := range candidates {
		if _, err := os.Stat(path); err == nil {
			return path, false
		}
	}
	return "", false
}

// UserFile returns the path of the user's own configuration file.
func UserFile() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "spate", "config.yaml"), err
}

// checkKeys refuses keys that are not a flag of any command of the program, or coordinator, which "spate login" writes.
func checkKeys(path string, keys []string, root *cobra.Command) error {
	known := map[string]bool{"coordinator": true}
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

// readable rewrites a value of a log line for people: an enum of the protocol as its word (outcome=failed, not 2), an
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

// enumWord returns the name of an enum's value without the common prefix of the names of all values.
func enumWord(e protoreflect.Enum) string {
	values := e.Descriptor().Values()
	value := values.ByNumber(e.Number())
	if value == nil {
		return fmt.Sprint(e.Number()) // from a newer protocol
	}
	common := ""
	if first := values.ByNumber(0); first != nil {
		common = strings.TrimSuffix(string(first.Name()), "UNSPECIFIED")
	}
	return strings.ToLower(strings.TrimPrefix(string(value.Name()), common))
}

// Logger makes the structured logger of a command. level is debug, info, warn or error; format is text, json or
// Sentences.
func Logger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level %q: want debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: l, ReplaceAttr: readable}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case Sentences:
		return slog.New(&sentenceHandler{w: w, level: l}), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("log format %q: want text or json", format)
}
