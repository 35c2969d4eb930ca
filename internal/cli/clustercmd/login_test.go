package clustercmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/internal/cli/command"
)

// Login changes only its settings in a person's file: comments and other settings stay as they are, also behind a link,
// and a file in another form is not touched.
func TestLoginKeepsTheFile(t *testing.T) {
	m := &command.Member{Address: "10.0.0.1:7700",
		Files: certs.Files{Authority: `C:\a "b"`, Cert: "/c d", Key: "/k"}}
	const own = "coordinator: \"10.0.0.1:7700\"\ntls-ca: \"C:\\\\a \\\"b\\\"\"\ntls-cert: \"/c d\"\ntls-key: \"/k\"\n"
	for what, c := range map[string]struct{ before, after string }{
		"no file":        {"", own},
		"comments":       {"# mine\nlog-level: debug # loud\n\n# coordinator: old", "# mine\nlog-level: debug # loud\n\n# coordinator: old\n" + own},
		"from before":    {"coordinator: x\na: 1\nTLS-CA: y\n" + own, "a: 1\n" + own},
		"in one line":    {"{coordinator: x, a: 1}\n", ""},
		"over two lines": {"tls-ca:\n  x\na: 1\n", ""},
		"in quotes":      {"\"tls-ca\": x\n", ""},
		"ended":          {"a: 1\n...\n", ""},
	} {
		home := t.TempDir()
		t.Setenv("HOME", home)
		t.Setenv("XDG_CONFIG_HOME", home)
		path, err := command.UserFile()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(home, "dotfile")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if c.before != "" {
			if err := os.WriteFile(file, []byte(c.before), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(file, path); err != nil {
				t.Skip("no links here: ", err)
			}
		}
		_, err = configure(m)
		got, _ := os.ReadFile(path)
		link, _ := os.Readlink(path)
		if c.after == "" {
			if string(got) != c.before || err == nil || !strings.Contains(err.Error(), own) {
				t.Errorf("%s: %v, and the file has\n%s", what, err, got)
			}
		} else if err != nil || string(got) != c.after || (link == file) != (c.before != "") {
			t.Errorf("%s: %v, the link is %q, and the file has\n%s\nwant\n%s", what, err, link, got, c.after)
		}
	}
}
