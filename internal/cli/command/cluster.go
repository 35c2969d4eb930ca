package command

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/coordinator/membership"
	"github.com/spate-load/spate/internal/files"
)

// TLS holds the certificates by which the programs of a cluster authenticate each other.
type TLS struct{ certs.Files }

// soon is how long before its end a certificate causes a warning.
const soon = 14 * 24 * time.Hour

// Check finds mistakes in the flags and their files, and warns about a certificate that expires soon. If none of the
// flags is given, Check returns nil.
func (t *TLS) Check(logger *slog.Logger) error {
	if !t.Given() {
		return nil
	}
	if t.Authority == "" || t.Cert == "" || t.Key == "" {
		return errors.New("--tls-ca, --tls-cert and --tls-key need one another: give all three; `spate certs --help` says how to make the files")
	}
	_, until, err := t.Files.Check(time.Now())
	if err != nil {
		return fmt.Errorf("--tls-cert: %w", err)
	}
	if left := time.Until(until); left < soon && !t.Joined() {
		logger.Warn("certificate expires soon: make a new one with spate certs", "file", t.Cert,
			"ends", until.Format(time.DateTime))
	}
	return nil
}

// Dial returns the credentials with which a program of a role connects to a coordinator. Without certificates they are
// plaintext.
func (t *TLS) Dial(role certs.Role) (credentials.TransportCredentials, error) {
	if !t.Given() {
		return insecure.NewCredentials(), nil
	}
	return t.Files.Dial(role)
}

// CheckPlain refuses a plaintext connection to another machine, unless it is allowed.
func (t *TLS) CheckPlain(address string, allowed bool) error {
	if t.Given() || allowed || Loopback(address) {
		return nil
	}
	return fmt.Errorf(
		"the connection to the coordinator at %s would be unencrypted: give --tls-ca, --tls-cert and --tls-key, or --insecure-plaintext if you trust the network",
		address,
	)
}

// InTurn returns the next of the known coordinators at each call, so that one that does not answer is skipped. Gossip
// may name any address, so addresses are checked like typed ones.
func InTurn(
	find func(context.Context) ([]string, error), check func(address string) error,
) func(context.Context) (string, error) {
	attempt := 0
	return func(ctx context.Context) (string, error) {
		addresses, err := find(ctx)
		if err != nil {
			return "", err
		}
		address := addresses[attempt%len(addresses)]
		attempt++
		return address, check(address)
	}
}

// Gossip holds the flags for a daemon's part in gossip. In its tags, LISTEN is the default of --gossip-listen, and JOIN
// the help of --join.
type Gossip struct {
	Listen    string   `flag:"gossip-listen" default:"LISTEN" help:"<IP:PORT> that gossip listens on, TCP and UDP; port 0 takes a free one"`
	Advertise string   `rare:"yes" flag:"gossip-advertise" help:"<IP[:PORT]> at which others reach this machine (default: the listen address, or its first private one)"`
	Join      []string `flag:"join" help:"JOIN"`
	Label     string   `rare:"yes" flag:"cluster" default:"spate" help:"name of the cluster; members of another one are refused"`
	Key       string   `flag:"gossip-key" help:"keys that encrypt gossip, 16, 24 or 32 bytes in base64, one a line: env:NAME or file:PATH; the first encrypts, all decrypt"`
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

// keys reads --gossip-key: one key per line. The first key encrypts, all decrypt.
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
	if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
		return fmt.Errorf("%q: want host:port, for example 127.0.0.1:7700", address)
	}
	return nil
}

// Loopback reports whether an address is only on this machine: on its loopback, as listen:PORT is, or a socket in its
// file system.
func Loopback(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" || host == "listen" || host == "unix" && strings.HasPrefix(port, "/") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// maxSecret is the largest size of a secret, in bytes.
const maxSecret = 1 << 20

// Secret returns the value behind "env:NAME" or "file:PATH", without the line break at the end of a file. Any other
// text is the value itself.
func Secret(reference string) (string, error) {
	if name, ok := strings.CutPrefix(reference, "env:"); ok {
		value := os.Getenv(name)
		if value == "" {
			return "", fmt.Errorf("the environment variable %s is not set", name)
		}
		return value, nil
	}
	if path, ok := strings.CutPrefix(reference, "file:"); ok {
		data, err := files.ReadFile(path, maxSecret)
		if err != nil {
			return "", err
		}
		value := strings.TrimRight(string(data), "\r\n")
		if value == "" {
			return "", fmt.Errorf("the file %s is empty", path)
		}
		return value, nil
	}
	return reference, nil
}
