package membership

import (
	"net"
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"
)

func TestConfigMistakesAreNamed(t *testing.T) {
	good := Config{Name: "a", Bind: "127.0.0.1:0"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		spoil func(*Config)
		want  string
	}{
		"no name":               {func(c *Config) { c.Name = "" }, "needs a name"},
		"short key":             {func(c *Config) { c.Keys = keysOf("short") }, "key 1 of 1 has 5 bytes"},
		"long label":            {func(c *Config) { c.Label = strings.Repeat("x", 300) }, "300 bytes"},
		"bind by name":          {func(c *Config) { c.Bind = "localhost:1" }, `"localhost" is not an IP`},
		"bind port":             {func(c *Config) { c.Bind = "127.0.0.1:99999" }, `"99999" is not a port`},
		"advertise by name":     {func(c *Config) { c.Advertise = "box:1" }, `"box" is not an IP`},
		"advertise unspecified": {func(c *Config) { c.Advertise = "0.0.0.0" }, "unspecified"},
		"advertise multicast":   {func(c *Config) { c.Advertise = "224.0.0.1" }, "multicast"},
		"advertise link-local":  {func(c *Config) { c.Advertise = "fe80::1" }, "link-local"},
		"loopback to others": {func(c *Config) { c.Seeds = []string{"127.0.0.1", "10.0.0.1:1"} },
			"tell 10.0.0.1 to reach it at 127.0.0.1"},
		"advertise nonsense": {func(c *Config) { c.Advertise = "?" }, "want an IP"},
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			tc.spoil(&c)
			if err := c.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestAdvertisedAddress(t *testing.T) {
	interfaces := func() ([]net.Addr, error) {
		return []net.Addr{
			&net.IPNet{IP: net.IPv4(127, 0, 0, 1), Mask: net.CIDRMask(8, 32)},
			&net.IPNet{IP: net.IPv4(10, 1, 2, 3), Mask: net.CIDRMask(24, 32)},
		}, nil
	}
	for _, tc := range []struct{ bind, advertise, want string }{
		{"", "", "10.1.2.3:7946"},
		{"0.0.0.0:5", "", "10.1.2.3:5"},
		{"127.0.0.1:5", "", "127.0.0.1:5"},
		{"0.0.0.0:5", "1.2.3.4", "1.2.3.4:5"},
		{"0.0.0.0:5", "1.2.3.4:6", "1.2.3.4:6"},
		{"[::1]:5", "", "[::1]:5"},
	} {
		got, err := Config{Bind: tc.bind, Advertise: tc.advertise}.advertise(interfaces)
		if err != nil || got.String() != tc.want {
			t.Errorf("bind %q, advertise %q: %v, %v; want %s", tc.bind, tc.advertise, got, err, tc.want)
		}
	}
	if _, err := (Config{}).advertise(func() ([]net.Addr, error) { return nil, nil }); err == nil {
		t.Error("a machine without a private address has nothing to advertise, and nothing was said")
	}
}

func TestSeedsOnLoopbackMayBeToldLoopback(t *testing.T) {
	for _, seed := range []string{"127.0.0.1:1", "127.0.0.2", "[::1]:5", "localhost", "a-name:5"} {
		if err := (Config{Name: "a", Bind: "127.0.0.1:0", Seeds: []string{seed}}).Validate(); err != nil {
			t.Errorf("%s: %v", seed, err)
		}
	}
	if err := (Config{Name: "a", Bind: "0.0.0.0:5", Advertise: "10.0.0.1",
		Seeds: []string{"10.0.0.2"}}).Validate(); err != nil {
		t.Error(err)
	}
}

// TestPresets: the timing is memberlist's, and datagrams are small enough for every network.
func TestPresets(t *testing.T) {
	for wan, want := range map[bool]*memberlist.Config{false: memberlist.DefaultLANConfig(),
		true: memberlist.DefaultWANConfig()} {
		got := preset(wan)
		if got.ProbeInterval != want.ProbeInterval || got.ProbeTimeout != want.ProbeTimeout ||
			got.GossipInterval != want.GossipInterval ||
			got.SuspicionMult != want.SuspicionMult || got.TCPTimeout != want.TCPTimeout {
			t.Errorf("WAN %v: %+v", wan, got)
		}
		if got.UDPBufferSize != 1227 || got.EnableCompression {
			t.Errorf("WAN %v: datagrams of %d bytes, compression %v", wan, got.UDPBufferSize, got.EnableCompression)
		}
	}
}
