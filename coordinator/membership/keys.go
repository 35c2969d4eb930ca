package membership

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
)

// keys calls Keys and checks the result. No keys means plain gossip.
func (c Config) keys() ([][]byte, error) {
	if c.Keys == nil {
		return nil, nil
	}
	keys, err := c.Keys()
	if err != nil {
		return nil, fmt.Errorf("membership: %w", err)
	}
	for i, key := range keys {
		if n := len(key); n != 16 && n != 24 && n != 32 {
			return nil, fmt.Errorf("membership: gossip key %d of %d has %d bytes; it must have 16, 24 or 32", i+1,
				len(keys), n)
		}
	}
	return keys, nil
}

// keyring makes the keyring for memberlist, nil for plain gossip.
func (c Config) keyring() (*memberlist.Keyring, error) {
	keys, err := c.keys()
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	ring, err := memberlist.NewKeyring(keys, keys[0])
	if err != nil {
		return nil, fmt.Errorf("membership: gossip keys: %w", err)
	}
	return ring, nil
}

// rotate calls Keys every KeyPoll and uses new keys. It returns at Close. On an error the keys stay as they were; the
// same error is logged once.
//
// A key is changed in three steps. Each step is done on all members before the next: add the new key after the old one
// (all can decrypt with it), move it to the front (all encrypt with it), remove the old key.
func (c *Cluster) rotate() {
	tick := time.NewTicker(c.cfg.KeyPoll)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-c.stop:
			return
		case <-tick.C:
		}
		changed, err := c.renewKeys()
		switch {
		case err != nil && err.Error() != said:
			said = err.Error()
			c.log.Warn("gossip keys cannot be renewed and stay unchanged", "error", err)
		case err == nil:
			said = ""
		}
		if changed {
			c.log.Info("gossip keys changed", "keys", len(c.ring.GetKeys()))
		}
	}
}

// renewKeys updates the ring to the keys that Keys returns now. It refuses to switch encryption off.
func (c *Cluster) renewKeys() (changed bool, err error) {
	keys, err := c.cfg.keys()
	if err != nil {
		return false, err
	}
	if len(keys) == 0 {
		return false, errors.New("membership: no gossip keys are left, and encryption cannot be switched off while " +
			"the program runs: restart it for that")
	}
	return install(c.ring, keys)
}

// install makes the ring hold exactly keys, in their order. It only removes keys from the end: memberlist hands out its
// slice of keys, and a removal elsewhere would move keys within that slice.
func install(ring *memberlist.Keyring, keys [][]byte) (changed bool, err error) {
	keys = distinct(keys)
	if same(ring.GetKeys(), keys) {
		return false, nil
	}
	if err := errors.Join(ring.AddKey(keys[0]), ring.UseKey(keys[0])); err != nil {
		return true, fmt.Errorf("membership: gossip keys: %w", err)
	}
	for old := ring.GetKeys(); len(old) > len(keys) || !same(old, keys[:len(old)]); old = ring.GetKeys() {
		if err := ring.RemoveKey(old[len(old)-1]); err != nil {
			return true, fmt.Errorf("membership: gossip keys: %w", err)
		}
	}
	for _, key := range keys {
		if err := ring.AddKey(key); err != nil {
			return true, fmt.Errorf("membership: gossip keys: %w", err)
		}
	}
	return true, nil
}

// distinct removes duplicate keys.
func distinct(keys [][]byte) (out [][]byte) {
	for _, key := range keys {
		if !slices.ContainsFunc(out, func(other []byte) bool { return bytes.Equal(other, key) }) {
			out = append(out, key)
		}
	}
	return out
}

func same(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }
