package plans

import "net/url"

// Redacted returns a URL with its password replaced by xxxxx.
func Redacted(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil || u.User == nil {
		return endpoint
	}
	return u.Redacted()
}
