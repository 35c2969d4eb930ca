package webserver

import (
	"strings"
	"testing"

	"github.com/spate-load/spate/certs"
)

// A page that other machines can reach is encrypted, unless the user says that the network is trusted.
func TestFlagsAreChecked(t *testing.T) {
	given := certs.Files{Authority: "ca", Cert: "cert", Key: "key"}
	for name, c := range map[string]struct {
		flags     Flags
		files     certs.Files
		plaintext bool
		want      string // empty: no mistake
	}{
		"none":                       {},
		"loopback":                   {flags: Flags{Listen: "127.0.0.1:1"}},
		"certificates":               {flags: Flags{Listen: "10.0.0.1:1"}, files: given},
		"trusted":                    {flags: Flags{Listen: "10.0.0.1:1"}, plaintext: true},
		"loopback with certificates": {flags: Flags{Listen: "127.0.0.1:1"}, files: given},
		"unencrypted":                {flags: Flags{Listen: "10.0.0.1:1"}, want: "would be unencrypted"},
		"no port":                    {flags: Flags{Listen: "10.0.0.1"}, plaintext: true, want: "want IP:PORT"},
		"token of a page not there":  {flags: Flags{Token: "t"}, want: "need --web-listen"},
		"names of a page not there":  {flags: Flags{Hosts: []string{"h"}}, want: "need --web-listen"},
	} {
		err := c.flags.Check(c.files, c.plaintext)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
