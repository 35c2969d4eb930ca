package command

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/spate-load/spate/coordinator/membership"
)

// Gossip holds the flags for a daemon's part in gossip. In its tags, LISTEN is the default of --gossip-listen.
type Gossip struct {
	Listen    string   `flag:"gossip-listen" default:"LISTEN" help:"<IP:PORT> that gossip listens on, TCP and UDP; port 0 takes a free one"`
	Advertise string   `rare:"yes" flag:"gossip-advertise" help:"<IP[:PORT]> at which others reach this machine (default: the listen address, or its first private one)"`
	Join      []string `flag:"join" help:"gossip <addresses> of any members to join"`
	Label     string   `rare:"yes" flag:"cluster" default:"spate" help:"name of the cluster; members of another one are refused"`
	Key       string   `flag:"gossip-key" help:"keys that encrypt gossip, 16, 24 or 32 bytes in base64, one a line: env:NAME or file:PATH; the first encrypts, all decrypt; a changed file is read within seconds"`
	WAN       bool     `rare:"yes" flag:"wan" help:"use gossip timeouts for networks between regions"`
}

// Config returns the configuration for membership. Gossip beyond loopback needs a key, or plaintext to be true.
func (g *Gossip) Config(
	name string, meta membership.Meta, plaintext bool, logger *slog.Logger,
) (membership.Config, error) {
	config := membership.Config{
		Name: name, Meta: meta, Bind: g.Listen, Advertise: g.Advertise, Label: g.Label, Seeds: g.Join, WAN: g.WAN,
		Logger: logger,
	}
	if g.Key != "" {
		config.Keys = g.keys
	}
	if g.Key == "" && !plaintext && !Loopback(g.Listen) {
		return config, fmt.Errorf("gossip on %s would be unencrypted: give --gossip-key, or --insecure-plaintext if you trust the network", g.Listen)
	}
	return config, config.Validate()
}

// keys reads --gossip-key: one key per line. The first key encrypts, all decrypt. A file is read again at each call, so
// that its keys can be changed while the program is running.
func (g *Gossip) keys() ([][]byte, error) {
	text, err := Secret(g.Key)
	if err != nil {
		return nil, fmt.Errorf("--gossip-key: %w", err)
	}
	var keys [][]byte
	for i, word := range strings.Fields(text) {
		key, err := base64.StdEncoding.DecodeString(word)
		if err != nil {
			return nil, fmt.Errorf("--gossip-key: key %d is not base64; make one with: head -c 32 /dev/urandom | base64",
				i+1)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("--gossip-key: there is no key in it; make one with: head -c 32 /dev/urandom | base64")
	}
	return keys, nil
}

// CheckAddress returns an error if an address is not host:port.
func CheckAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" {
		return fmt.Errorf("%q: want host:port, for example 127.0.0.1:7700", address)
	}
	return nil
}

// Loopback reports whether an address is only on this machine: on its loopback, or a socket in its file system.
func Loopback(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" || host == "unix" && strings.HasPrefix(port, "/") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
