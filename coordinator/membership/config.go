package membership

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/hashicorp/memberlist"
)

// DefaultPort is the gossip port, TCP and UDP, of addresses without a port.
const DefaultPort = 7946

// DefaultLabel keeps Spate's gossip apart from other programs' on the same network.
const DefaultLabel = "spate"

// Config configures how a process joins the cluster.
type Config struct {
	// Name is the first part of the node's name. A random suffix is added, so that a restarted process is a new node
	// and need not wait until the old node is noticed to be dead.
	Name string
	// Meta is what other members are told about this member.
	Meta Meta
	// Bind is the IP and port that gossip listens on, TCP and UDP. Port 0 picks a free one. Default: all addresses,
	// DefaultPort.
	Bind string
	// Advertise is the IP, with or without a port, at which others reach this member. Default: the bind address, or the
	// first private address of this machine if that is unspecified.
	Advertise string
	// Label names the cluster. Members with different labels refuse each other. Default DefaultLabel.
	Label string
	// Keys returns the keys that encrypt gossip, 16, 24 or 32 bytes each. The first key encrypts, all keys decrypt.
	// Validate and Join call Keys, and later it is called every KeyPoll, so that keys can be changed without a restart
	// (see Cluster.rotate). If Keys is nil, or returns no keys at the start, gossip is not encrypted.
	Keys func() ([][]byte, error)
	// KeyPoll is how often Keys is called. Default 5 s.
	KeyPoll time.Duration
	// Seeds are addresses (host or host:port) of any members. Host names are looked up again at each attempt. Empty:
	// this member waits until another one joins it.
	Seeds []string
	// WAN slows gossip down, for networks between regions.
	WAN bool
	// Rejoin is how often seeds that are not members are retried. Default 10 s; at most 1 s while no other member is
	// known.
	Rejoin time.Duration
	// Logger receives log messages, and memberlist's own log at debug level. Default slog.Default().
	Logger *slog.Logger

	resolve resolver // replaces the system's resolver in tests
	network network  // replaces sockets in tests
}

// withDefaults fills in what is not set.
func (c Config) withDefaults() Config {
	c.Logger, c.Label = cmp.Or(c.Logger, slog.Default()), cmp.Or(c.Label, DefaultLabel)
	if c.Rejoin <= 0 {
		c.Rejoin = 10 * time.Second
	}
	if c.KeyPoll <= 0 {
		c.KeyPoll = 5 * time.Second
	}
	if c.resolve == nil {
		c.resolve = net.DefaultResolver.LookupHost
	}
	if c.network == nil {
		c.network = listen
	}
	return c
}

// Validate returns all errors in the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Name == "" {
		errs = append(errs, errors.New("membership: the node needs a name"))
	}
	_, err := c.keys()
	errs = append(errs, err)
	if n := len(c.Label); n > memberlist.LabelMaxSize {
		errs = append(errs, fmt.Errorf("membership: the cluster label has %d bytes; at most %d fit", n,
			memberlist.LabelMaxSize))
	}
	return errors.Join(append(errs, c.checkAddresses())...)
}
