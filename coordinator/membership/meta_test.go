package membership

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestMetaRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Meta{
			Role:     rapid.SampledFrom([]Role{RoleCoordinator, RoleAgent}).Draw(t, "role"),
			GRPCPort: rapid.Uint16().Draw(t, "port"),
			Region:   rapid.String().Draw(t, "region"),
		}
		b := m.Encode()
		if len(b) > 128 {
			t.Fatalf("%d bytes of meta", len(b))
		}
		got, err := ParseMeta(b)
		if err != nil {
			t.Fatal(err)
		}
		if got.Role != m.Role || got.GRPCPort != m.GRPCPort || !strings.HasPrefix(m.Region, got.Region) {
			t.Fatalf("%+v became %+v", m, got)
		}
		if len(m.Region) <= MaxRegion && got.Region != m.Region {
			t.Fatalf("region %q became %q", m.Region, got.Region)
		}
	})
}

func FuzzParseMeta(f *testing.F) {
	f.Add(Meta{Role: RoleAgent, GRPCPort: 7070, Region: "eu"}.Encode())
	f.Add([]byte{})
	f.Add([]byte{2, 1, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMeta(b)
		if err != nil {
			return
		}
		if !utf8.ValidString(m.Region) || string(m.Encode()) != string(b) {
			t.Errorf("%q was taken as %+v, which encodes to %q", b, m, m.Encode())
		}
	})
}
