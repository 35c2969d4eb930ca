package command

import (
	"encoding/base64"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spate-load/spate/coordinator/membership"
)

var (
	key16 = base64.StdEncoding.EncodeToString([]byte("0123456789abcdef"))
	key32 = base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
)

func config(g Gossip, plaintext bool) (membership.Config, error) {
	return g.Config("a", membership.Meta{Role: membership.RoleAgent}, plaintext, slog.New(slog.DiscardHandler))
}

func TestGossipKeysAreReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gossip.keys")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(key16 + "\n")
	cfg, err := config(Gossip{Listen: "127.0.0.1:0", Key: "file:" + path}, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		text string
		want []int
		err  string
	}{
		{key16, []int{16}, ""},
		{key32 + "\r\n" + key16 + "\n\n", []int{32, 16}, ""},
		{key32 + "\n??\n", nil, "key 2 is not base64"},
		{"\n", nil, "is empty"},
		{" \n", nil, "no key in it"},
	} {
		write(step.text)
		keys, err := cfg.Keys()
		if (err == nil) != (step.err == "") || err != nil && !strings.Contains(err.Error(), step.err) {
			t.Errorf("%q: error %v, want %q", step.text, err, step.err)
		}
		if err != nil && strings.Contains(err.Error(), key32) {
			t.Errorf("a key is in the error: %v", err)
		}
		if len(keys) != len(step.want) {
			t.Fatalf("%q: %d keys, want %d", step.text, len(keys), len(step.want))
		}
		for i, n := range step.want {
			if len(keys[i]) != n {
				t.Errorf("%q: key %d has %d bytes, want %d", step.text, i, len(keys[i]), n)
			}
		}
	}
}

func TestGossipMistakes(t *testing.T) {
	t.Setenv("GOSSIP_KEYS", key16+" "+key32)
	for name, tc := range map[string]struct {
		gossip    Gossip
		plaintext bool
		want      string
	}{
		"loopback needs no key":   {Gossip{Listen: "127.0.0.1:0"}, false, ""},
		"plain beyond loopback":   {Gossip{Listen: "10.0.0.1:0"}, false, "would be unencrypted"},
		"plain by leave":          {Gossip{Listen: "10.0.0.1:0"}, true, ""},
		"keys by the environment": {Gossip{Listen: "10.0.0.1:0", Key: "env:GOSSIP_KEYS"}, false, ""},
		"no such file":            {Gossip{Listen: "10.0.0.1:0", Key: "file:/nowhere"}, false, "/nowhere"},
		"short key":               {Gossip{Listen: "10.0.0.1:0", Key: "AAAA"}, false, "key 1 of 1 has 3 bytes"},
		"loopback to others":      {Gossip{Listen: "127.0.0.1:0", Join: []string{"10.0.0.1"}}, false, "10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config(tc.gossip, tc.plaintext)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
