package command

import "testing"

func TestSize(t *testing.T) {
	for text, want := range map[string]struct {
		bytes Size
		shown string
	}{
		"0": {0, "0"}, "4096": {4096, "4KiB"}, "32GiB": {32 << 30, "32GiB"}, "1.5 GiB": {3 << 29, "1536MiB"},
		"500MB": {500e6, "500000000"},
		"7B":    {7, "7"}, "2TB": {2e12, "1953125000KiB"}, "1TiB": {1 << 40, "1TiB"},
	} {
		var s Size
		if err := s.Set(text); err != nil || s != want.bytes || s.String() != want.shown {
			t.Errorf("%q: %d %q, error %v", text, s, s.String(), err)
		}
	}
	for _, text := range []string{"", "GiB", "-1", "1e30", "NaN", "1 PiB", "1,5GB", "Inf"} {
		var s Size
		if err := s.Set(text); err == nil {
			t.Errorf("%q is %d", text, s)
		}
	}
}
