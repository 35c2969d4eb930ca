package influx

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// DefaultTimeout is far above the 3 to 25 ms that a thousand points take, and short enough to notice a hung server.
const DefaultTimeout = 10 * time.Second

// Config configures which InfluxDB to write to.
type Config struct {
	// URL is the server's base URL, http or https: "http://localhost:8086". It must not contain a user or password.
	URL string
	// Token is the API token itself; references are resolved by the caller. InfluxDB 1.8 and VictoriaMetrics:
	// "user:password". A token that starts with a scheme, such as "Bearer ", is sent unchanged. May be empty.
	Token string
	// TLS configures how an https server's certificate is verified. Nil: by the machine's certificate authorities.
	TLS *tls.Config
	// Org is the organisation that the bucket belongs to. Only InfluxDB 2 has organisations.
	Org string
	// Bucket is where points go. InfluxDB 1.8: "database" or "database/retention-policy". InfluxDB 3: the database.
	// VictoriaMetrics has no buckets and accepts any name.
	Bucket string
	// Timeout bounds one request. 0: DefaultTimeout.
	Timeout time.Duration
}

// Validate returns an error for each mistake, with what to do about it.
func (c Config) Validate() error {
	var mistakes []error
	wrong := func(format string, args ...any) {
		mistakes = append(mistakes, fmt.Errorf("influx: "+format, args...))
	}
	if err := checkURL(c.URL); err != nil {
		wrong("%w", err)
	}
	if c.Bucket == "" {
		wrong("no bucket: give the bucket's name (InfluxDB 1.8: database or database/retention-policy)")
	}
	if strings.ContainsAny(c.Token, "\r\n") {
		wrong("the token contains a line break: is it cut from its file without the end of the line?")
	}
	if c.Timeout < 0 {
		wrong("the timeout is %v: give a positive time, or 0 for %v", c.Timeout, DefaultTimeout)
	}
	return errors.Join(mistakes...)
}

// checkURL checks the server's URL. Its errors do not contain a URL that may hold a password.
func checkURL(text string) error {
	if text == "" {
		return errors.New("no URL: give the server's, such as http://localhost:8086")
	}
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("the URL cannot be parsed: give one such as http://localhost:8086")
	}
	if u.User != nil {
		return errors.New("the URL holds a user: give it as the token, \"user:password\", by reference")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("URL %q: give one such as http://localhost:8086", text)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("URL %q: leave out what follows the path; org and bucket have options of their own", text)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	return c
}
