package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// command returns a program with one subcommand that has two flags.
func command() (root, sub *cobra.Command) {
	root = &cobra.Command{Use: "spate"}
	AddFlag(root)
	sub = &cobra.Command{Use: "run", RunE: func(cmd *cobra.Command, _ []string) error { return Apply(cmd) }}
	sub.Flags().String("influx-url", "default", "")
	sub.Flags().IntSlice("concurrency", nil, "")
	root.AddCommand(sub)
	root.SilenceErrors, root.SilenceUsage = true, true
	return root, sub
}

func TestOrderOfSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("influx-url: from-file\nconcurrency: [1, 2]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, env, want string
		args            []string
	}{
		{name: "default", want: "default", args: []string{"run"}},
		{name: "file beats default", want: "from-file", args: []string{"run", "--config", file}},
		{name: "environment beats file", env: "from-env", want: "from-env", args: []string{"run", "--config", file}},
		{name: "flag beats all", env: "from-env", want: "typed",
			args: []string{"run", "--config", file, "--influx-url", "typed"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv("XDG_CONFIG_HOME", t.TempDir())
			if tc.env != "" {
				t.Setenv("SPATE_INFLUX_URL", tc.env)
			}
			root, sub := command()
			root.SetArgs(tc.args)
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
			if got, _ := sub.Flags().GetString("influx-url"); got != tc.want {
				t.Errorf("influx-url = %q, want %q", got, tc.want)
			}
		})
	}
}

// TestTyped: a setting from the environment or a file was not typed, whatever the flag set says.
func TestTyped(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for name, tc := range map[string]struct {
		env  string
		args []string
		want bool
	}{
		"neither":     {args: []string{"run"}},
		"environment": {env: "from-env", args: []string{"run"}},
		"typed":       {args: []string{"run", "--influx-url", "x"}, want: true},
		"both":        {env: "from-env", args: []string{"run", "--influx-url", "x"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SPATE_INFLUX_URL", tc.env)
			root, sub := command()
			root.SetArgs(tc.args)
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
			if got := Typed(sub.Flags(), "influx-url"); got != tc.want {
				t.Errorf("Typed = %v", got)
			}
		})
	}
	if root, _ := command(); Typed(root.Flags(), "influx-url") {
		t.Error("a flag that is not there was typed")
	}
}

func TestFileListsBecomeFlagLists(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("spate.yaml", []byte("concurrency: [4, 8]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, sub := command()
	root.SetArgs([]string{"run"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	if got, _ := sub.Flags().GetIntSlice("concurrency"); len(got) != 2 || got[0] != 4 || got[1] != 8 {
		t.Errorf("concurrency = %v, want [4 8]", got)
	}
}

// TestTypedOnly: neither the environment nor a file sets such a flag, and it has a value.
func TestTypedOnly(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("SPATE_INFLUX_URL", "from-env")
	var f struct {
		API string `flag:"influx-url" default:"default" typed:"only"`
	}
	run := func(args ...string) error {
		root, sub := command()
		sub.ResetFlags()
		Declare(sub.Flags(), &f)
		root.SetArgs(append([]string{"run"}, args...))
		return root.Execute()
	}
	// A variable of a script that is not set would switch off what the flag asks for.
	if err := run("--influx-url="); err == nil || !strings.Contains(err.Error(), "--influx-url: the value is empty") {
		t.Errorf("an empty value: %v", err)
	}
	if err := run(); err != nil || f.API != "default" {
		t.Errorf("influx-url = %q, %v", f.API, err)
	}
	if err := os.WriteFile("spate.yaml", []byte("influx-url: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(); err == nil || !strings.Contains(err.Error(), `unknown setting "influx-url"`) {
		t.Errorf("error %v", err)
	}
}

func TestBadFilesAreErrors(t *testing.T) {
	for name, tc := range map[string]struct{ content, want string }{
		"unknown setting": {"influx-ulr: x\n", `unknown setting "influx-ulr"`},
		"wrong type":      {"concurrency: many\n", "setting concurrency"},
		"no YAML":         {"a: [\n", "configuration file"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(file, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			root, _ := command()
			root.SetArgs([]string{"run", "--config", file})
			err := root.Execute()
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
	root, _ := command()
	root.SetArgs([]string{"run", "--config", "/nowhere/spate.yaml"})
	if err := root.Execute(); err == nil {
		t.Error("a named file that is missing was accepted")
	}
}

func TestLogger(t *testing.T) {
	for _, tc := range []struct {
		level, format string
		ok            bool
	}{{"info", "text", true}, {"debug", "json", true}, {"loud", "text", false}, {"info", "xml", false}} {
		if _, err := Logger(os.Stderr, tc.level, tc.format); (err == nil) != tc.ok {
			t.Errorf("Logger(%q, %q): %v", tc.level, tc.format, err)
		}
	}
}
