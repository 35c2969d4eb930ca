package naming

import "testing"

// Addresses of one server have the same name, whatever they leave out.
func TestServer(t *testing.T) {
	for address, want := range map[string]string{
		"http://Host/v1": "host:80", "http://host:80": "host:80", "https://user:key@host": "host:443",
		"https://host:80": "host:80", "http://[::1]": "[::1]:80", "http://[::1]:8000/x": "[::1]:8000", "http://h:x": "",
	} {
		if got := Server(address); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}
