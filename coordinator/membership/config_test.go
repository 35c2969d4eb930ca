package membership

import (
	"net"
	"strings"
	"testing"
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
		"short key":             {func(c *Config) { c.Key = make([]byte, 5) }, "5 bytes"},
		"long label":            {func(c *Config) { c.Label = strings.Repeat("x", 300) }, "300 bytes"},
		"bind by name":          {func(c *Config) { c.Bind = "localhost:1" }, `"localhost" is not an IP`},
		"bind port":             {func(c *Config) { c.Bind = "127.0.0.1:99999" }, `"99999" is not a port`},
		"advertise by name":     {func(c *Config) { c.Advertise = "box:1" }, `"box" is not an IP`},
		"advertise unspecified": {func(c *Config) { c.Advertise = "0.0.0.0" }, "unspecified"},
		"advertise nonsense":    {func(c *Config) { c.Advertise = "?" }, "want an IP"},
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
