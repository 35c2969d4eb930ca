package command

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/spate-load/spate/internal/files"
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
	settings, err := readFile(cmd)
	if err != nil {
		return err
	}
	var errs []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == Flag || isTypedOnly(f) {
			return
		}
		variable := "SPATE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := os.Getenv(variable)
		if node, given := settings[f.Name]; value == "" && given {
			value = textOf(&node)
		} else if value == "" {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil { // it is parsed and checked as if it had been typed
			errs = append(errs, fmt.Errorf("setting %s (from %s or the configuration file): %w", f.Name, variable, err))
			return
		}
		annotate(f, configured)
	})
	return errors.Join(errs...)
}

// textOf returns a setting as it would be typed.
func textOf(node *yaml.Node) string {
	var words []string
	for _, item := range node.Content {
		words = append(words, item.Value)
	}
	if node.Kind == yaml.SequenceNode {
		return strings.Join(words, ",")
	}
	return node.Value
}

// readFile reads the configuration file, if there is one. A file that a person named must exist.
func readFile(cmd *cobra.Command) (settings map[string]yaml.Node, err error) {
	path, named := filePath(cmd)
	if path == "" {
		return nil, nil
	}
	text, err := files.ReadFile(path, maxSettings)
	if !named && errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = yaml.Unmarshal(text, &settings)
	}
	if err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", path, err)
	}
	return settings, checkKeys(path, slices.Sorted(maps.Keys(settings)), cmd.Root())
}

// maxSettings is the most bytes of a configuration file.
const maxSettings = 1 << 20

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

// checkKeys refuses keys that are not a flag of any command of the program.
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
