package membership

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"pgregory.net/rapid"
)

// keysOf is a Keys function with fixed keys.
func keysOf(keys ...string) func() ([][]byte, error) {
	return func() ([][]byte, error) { return bytesOf(keys), nil }
}

func bytesOf(keys []string) [][]byte {
	var out [][]byte
	for _, k := range keys {
		out = append(out, []byte(k))
	}
	return out
}

const (
	oldKey = "old-old-old-old-"
	newKey = "new-new-new-new-"
)

// keyFile is a key file that can be written to.
type keyFile struct {
	mu   sync.Mutex
	keys []string
	err  error
}

func (f *keyFile) read() ([][]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return bytesOf(f.keys), f.err
}

func (f *keyFile) write(err error, keys ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys, f.err = keys, err
}

// awaitKeys blocks until the ring of c holds keys.
func awaitKeys(t *testing.T, c *Cluster, keys ...string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !same(c.ring.GetKeys(), bytesOf(keys)) {
		if time.Now().After(deadline) {
			t.Fatalf("%s has %q, want %q", c.Name(), c.ring.GetKeys(), keys)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// TestKeysChangeWithoutARestart: two members go through the three steps one after the other. At each moment a third
// member that has just started with the keys of either can join both.
func TestKeysChangeWithoutARestart(t *testing.T) {
	t.Parallel()
	var files [2]keyFile
	var nodes [2]*Cluster
	for i := range nodes {
		files[i].write(nil, oldKey)
		cfg := config(string(rune('a'+i)), RoleAgent, 0)
		cfg.Keys, cfg.KeyPoll = files[i].read, 10*time.Millisecond
		if i > 0 {
			cfg.Seeds = []string{nodes[0].Address()}
		}
		nodes[i] = join(t, cfg)
	}
	await(t, nodes[0], 2)
	for _, step := range [][]string{{oldKey, newKey}, {newKey, oldKey}, {newKey}} {
		for i := range nodes {
			files[i].write(nil, step...)
			awaitKeys(t, nodes[i], step...)
			for _, peer := range nodes {
				cfg := config("c", RoleAgent, 0, peer.Address())
				cfg.Keys = files[i].read
				c := join(t, cfg)
				await(t, c, 3)
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	await(t, nodes[0], 2)
	stale := config("stale", RoleAgent, 0)
	stale.Keys = keysOf(oldKey)
	s := join(t, stale)
	if _, err := s.list.Join([]string{nodes[0].Address()}); err == nil {
		t.Error("a member with the removed key joined")
	}
}

// TestBadKeysChangeNothing: keys that cannot be read are logged once, and the old keys stay.
func TestBadKeysChangeNothing(t *testing.T) {
	var file keyFile
	file.write(nil, oldKey)
	var said lines
	cfg := config("a", RoleAgent, 0)
	cfg.Keys, cfg.KeyPoll, cfg.Logger = file.read, time.Millisecond, slog.New(slog.NewTextHandler(&said, nil))
	c := join(t, cfg)
	for _, bad := range []struct {
		err  error
		keys []string
		want string
	}{
		{err: errors.New("file is gone"), want: "file is gone"},
		{keys: []string{oldKey, "short"}, want: "gossip key 2 of 2 has 5 bytes"},
		{want: "no gossip keys are left"},
	} {
		file.write(bad.err, bad.keys...)
		said.await(t, bad.want)
		awaitKeys(t, c, oldKey)
	}
	file.write(nil, newKey, oldKey)
	said.await(t, "gossip keys changed")
	if n := strings.Count(said.String(), "file is gone"); n != 1 {
		t.Errorf("said %d times", n)
	}
	if strings.Contains(said.String(), oldKey) || strings.Contains(said.String(), newKey) {
		t.Errorf("a key is in the log:\n%s", said.String())
	}
}

// TestInstall: whatever the ring held before, it then holds the given keys, and the first key encrypts.
func TestInstall(t *testing.T) {
	key := rapid.Custom(func(t *rapid.T) []byte {
		return bytes.Repeat([]byte{rapid.ByteRange(1, 5).Draw(t, "key")}, 16)
	})
	keys := rapid.SliceOfN(key, 1, 5)
	rapid.Check(t, func(t *rapid.T) {
		before, after := keys.Draw(t, "before"), keys.Draw(t, "after")
		ring, err := memberlist.NewKeyring(before, before[0])
		if err != nil {
			t.Fatal(err)
		}
		was := ring.GetKeys()
		changed, err := install(ring, after)
		if err != nil {
			t.Fatal(err)
		}
		want := distinct(after)
		if !same(ring.GetKeys(), want) || !bytes.Equal(ring.GetPrimaryKey(), after[0]) {
			t.Fatalf("%v became %v, want %v", before, ring.GetKeys(), want)
		}
		if changed == same(was, want) {
			t.Fatalf("changed = %v from %v to %v", changed, was, want)
		}
	})
}

// lines is a log that can be waited on.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// await blocks until want was logged.
func (l *lines) await(t *testing.T, want string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !strings.Contains(l.String(), want) {
		if time.Now().After(deadline) {
			t.Fatalf("%q was never logged:\n%s", want, l.String())
		}
		<-time.After(5 * time.Millisecond)
	}
}
