package coordinatorcmd

import (
	"strings"
	"testing"

	"github.com/spate-load/spate/certs"
)

// A page that other machines can reach is encrypted, unless the user says that the network is trusted.
func TestFlagsAreChecked(t *testing.T) {
	given := certs.Files{Authority: "ca", Cert: "cert", Key: "key"}
	for name, c := range map[string]struct {
		flags     WebFlags
		files     certs.Files
		plaintext bool
		want      string // empty: no mistake
	}{
		"none":                       {},
		"loopback":                   {flags: WebFlags{Listen: "127.0.0.1:1"}},
		"certificates":               {flags: WebFlags{Listen: "10.0.0.1:1"}, files: given},
		"trusted":                    {flags: WebFlags{Listen: "10.0.0.1:1"}, plaintext: true},
		"loopback with certificates": {flags: WebFlags{Listen: "127.0.0.1:1"}, files: given},
		"unencrypted":                {flags: WebFlags{Listen: "10.0.0.1:1"}, want: "would be unencrypted"},
		"no port":                    {flags: WebFlags{Listen: "10.0.0.1"}, plaintext: true, want: "want IP:PORT"},
		"token of a page not there":  {flags: WebFlags{Token: "t"}, want: "need --web-listen"},
		"names of a page not there":  {flags: WebFlags{Hosts: []string{"h"}}, want: "need --web-listen"},
	} {
		err := c.flags.Check(c.files, c.plaintext)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
