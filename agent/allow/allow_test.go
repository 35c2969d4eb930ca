package allow

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// names is a resolver with a few names.
type names map[string][]string

func (n names) LookupNetIP(_ context.Context, _, host string) (out []netip.Addr, err error) {
	for _, text := range n[host] {
		out = append(out, netip.MustParseAddr(text))
	}
	if len(out) == 0 {
		err = fmt.Errorf("no such host %s", host)
	}
	return out, err
}

var world = names{
	"llm.example.com": {"10.0.0.7"}, "a.example.com": {"192.0.2.1", "2001:db8::1"},
	"half.example.com": {"10.0.0.7", "192.0.2.1"},
	"10.0.0.evil.test": {"203.0.113.9"}, "10.0.0.evil": {"203.0.113.9"}, "a.example.com.evil.test": {"203.0.113.9"},
	"deep.a.example.com":  {"203.0.113.9"},
	"rebound.example.com": {"127.0.0.1"}, "mapped.test": {"::ffff:10.0.0.7"}, "127.1": {"127.0.0.1"},
	"localhost": {"127.0.0.1", "::1"},
}

func TestAllowedHosts(t *testing.T) {
	for _, c := range []struct {
		entry, url string
		want       bool
	}{
		{"10.0.0.*:8000", "http://10.0.0.7:8000", true},
		{"10.0.0.*:8000", "http://10.0.0.7:8001", false},
		{"10.0.0.*:8000", "http://10.0.0.evil.test:8000", false},
		{"10.0.0.*", "http://10.0.0.evil", false},
		{"10.0.0.*", "http://10.0.0.7.8", false},
		{"10.0.0.?", "http://10.0.0.77", false},
		{"10.0.0.0/24", "http://10.0.0.255", true},
		{"10.0.0.0/24", "http://10.0.1.0", false},
		{"10.0.0.0/24:8000", "http://10.0.0.1:8000", true},
		{"10.0.0.0/24:8000", "http://10.0.0.1", false},
		{"10.0.0.0/24", "http://llm.example.com", true},
		{"10.0.0.0/24", "http://half.example.com", false},
		{"10.0.0.0/24", "http://mapped.test", true},
		{"10.0.0.0/24", "http://[::ffff:10.0.0.7]", true},
		{"10.0.0.0/24", "http://rebound.example.com", false},
		{"10.0.0.0/24", "http://127.1", false},
		{"127.0.0.0/8", "http://127.1", true},
		{"::1", "http://[::1]:80", true},
		{"[::1]:8000", "http://[::1]:8000", true},
		{"[::1]:8000", "http://[::1]:8001", false},
		{"[::1]", "http://[::1]:8001", true},
		{"[2001:db8::/32]:8000", "http://[2001:db8::5]:8000", true},
		{"2001:db8::/32", "http://[2001:db9::5]:8000", false},
		{"fe80::/10", "http://[fe80::1%25eth0]:8000", true},
		{"0.0.0.0/0", "http://[::1]", false},
		{"*.example.com", "http://a.example.com/v1", true},
		{"*.example.com", "https://A.Example.COM.:8443", true},
		{"*.example.com", "http://example.com", false},
		{"*.example.com", "http://deep.a.example.com", false},
		{"*.example.com", "http://a.example.com.evil.test", false},
		{"llm.example.com.", "http://llm.example.com", true},
		{"llm.example.com:443", "https://llm.example.com/path", true},
		{"llm.example.com:80", "http://llm.example.com", true},
		{"llm.example.com", "http://llm.example.com@10.0.0.evil.test", false},
		{"localhost", "http://localhost:1", true},
		{"*", "http://localhost", true},
		{"*", "http://10.0.0.7", false},
		{"missing.test", "http://missing.test", false},
	} {
		l, err := Parse([]string{"nothing.test", c.entry})
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		pins := Pins{}
		err = l.Check(t.Context(), world, u, pins)
		if (err == nil) != c.want {
			t.Errorf("%s and %s: %v", c.entry, c.url, err)
		}
		if _, pinned := pins.Of(u.Hostname()); err == nil && pinned != !address(u.Hostname()).IsValid() {
			t.Errorf("%s and %s: pinned %v", c.entry, c.url, pins)
		}
		if err != nil && strings.Contains(c.entry, "10.0.0") && !strings.Contains(err.Error(), c.entry) {
			t.Errorf("%s and %s: %v does not say who is allowed", c.entry, c.url, err)
		}
	}
}

func TestInvalidEntries(t *testing.T) {
	for _, entry := range []string{"", "[", "[::1", "[::1]8000", "[::1]:", "host:", "host:0", "host:65536", "host:http",
		"10.0.0.0/33", "::ffff:10.0.0.0/104",
		"a b", "http://host", "host/path", "a..b", "1.2.3", "12345", "10.0.0.[0-9]", "ho*st.1", "::1:x:8000"} {
		if l, err := Parse([]string{entry}); err == nil {
			t.Errorf("%q is taken: %+v", entry, l)
		}
	}
	if _, err := Parse([]string{"good", "a b", "host:"}); err == nil || !strings.Contains(err.Error(), `"a b"`) ||
		!strings.Contains(err.Error(), `"host:"`) {
		t.Errorf("not all mistakes are told: %v", err)
	}
}

// An empty list allows every host, and no name is looked up.
func TestEmptyListAllowsAll(t *testing.T) {
	pins := Pins{}
	if err := (List{}).Check(t.Context(), nil, &url.URL{Host: "anything"}, pins); err != nil || len(pins) > 0 ||
		(List{}).CheckName(&url.URL{Host: "anything"}) != nil {
		t.Errorf("%v, %v", err, pins)
	}
}

// Names with several addresses are spread over them, unless they are this machine's or of another family.
func TestNamesWithSeveralAddresses(t *testing.T) {
	pool := names{"pool": {"10.0.0.1", "2001:db8::1", "10.0.0.2", "10.0.0.3"}, "one": {"10.0.0.1", "2001:db8::1"},
		"here": {"127.0.0.1", "127.0.0.2"}}
	pins := Pins{}
	for _, host := range []string{"Pool", "one", "here", "gone", "10.0.0.9"} {
		if err := (List{}).Check(t.Context(), pool, &url.URL{Scheme: "http", Host: host}, pins); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if all, _ := pins.Of("pool"); len(pins) != 1 || fmt.Sprint(all) != "[10.0.0.1 10.0.0.2 10.0.0.3]" {
		t.Errorf("pinned %v", pins)
	}
}

// Behind a proxy a name is looked up elsewhere, so a list of networks says nothing about it.
func TestNamesBehindAProxy(t *testing.T) {
	l, err := Parse([]string{"10.0.0.0/24", "a.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{"10.0.0.9": true, "a.example.com": true, "llm.example.com": false,
		"192.0.2.1": false} {
		if err := l.CheckName(&url.URL{Scheme: "http", Host: host}); (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// For any list and any host: a host that an entry allows is also allowed by a longer list. Networks allow a name only
// if they contain all of its addresses.
func TestListsOnlyAdd(t *testing.T) {
	entries := []string{"10.0.0.*", "10.0.0.0/25", "*.example.com", "llm.*.com:80", "[::1]:80", "192.0.2.1",
		"2001:db8::/64", "localhost:8000"}
	hosts := []string{"llm.example.com", "a.example.com", "half.example.com", "10.0.0.evil.test", "localhost",
		"10.0.0.200", "[::1]", "127.1"}
	rapid.Check(t, func(rt *rapid.T) {
		texts := rapid.SliceOfNDistinct(rapid.SampledFrom(entries), 1, 4, rapid.ID).Draw(rt, "entries")
		u := &url.URL{Scheme: "http", Host: rapid.SampledFrom(hosts).Draw(rt, "host")}
		one := false
		for _, text := range texts {
			alone, _ := Parse([]string{text})
			err := alone.Check(t.Context(), world, u, Pins{})
			one = one || err == nil
		}
		all, _ := Parse(texts)
		if err := all.Check(t.Context(), world, u, Pins{}); one && err != nil {
			rt.Fatalf("%v: %v", texts, err)
		}
	})
}

// A host name is looked up once, and keeps the addresses found then.
func TestNamesArePinned(t *testing.T) {
	l, _ := Parse([]string{"llm.example.com"})
	changing := names{}
	u := &url.URL{Scheme: "http", Host: "LLM.example.com:8000"}
	pins := Pins{}
	for _, address := range []string{"10.0.0.7", "127.0.0.1"} {
		changing["llm.example.com"] = []string{address}
		if err := l.Check(t.Context(), changing, u, pins); err != nil {
			t.Fatal(err)
		}
	}
	if a, ok := pins.Of("llm.EXAMPLE.com."); !ok || a[0].String() != "10.0.0.7" {
		t.Errorf("pinned to %v", a)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"10.0.0.*:8000", "[2001:db8::/32]:80", "*.example.com", "[", "a:b:c"} {
		f.Add(text, "10.0.0.evil.test")
	}
	f.Fuzz(func(t *testing.T, text, host string) {
		l, err := Parse([]string{text})
		if err != nil {
			return
		}
		u := &url.URL{Scheme: "http", Host: host}
		if l.CheckName(u) == nil && strings.Count(l.entries[0].pattern, ".") != strings.Count(canonical(u.Hostname()),
			".") && l.entries[0].pattern != "" {
			t.Errorf("%q allows %q", text, host)
		}
	})
}
