// Package naming has the forms of the names and labels of agents and regions, and of the addresses of endpoints.
package naming

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/internal/lists"
)

// MaxRegion is the largest size of a region's name, in bytes. Gossip carries no longer name.
const MaxRegion = 64

// agentName is the form of names of agents, which become tags, keys and file names.
var agentName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckName refuses a name that an agent cannot have. Its error completes "agent name ".
func CheckName(name string) error {
	if agentName.MatchString(name) {
		return nil
	}
	return fmt.Errorf("%.80q: want 1 to 64 letters, digits, dots, dashes and underscores, the first a letter or digit", name)
}

// RegionLabel is the label that stands for an agent's region.
const RegionLabel = "region"

// MaxLabels is the largest number of labels of an agent or a selector.
const MaxLabels = 32

// label is the form of the names and values of labels.
var label = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,62})$`)

// CheckLabel returns what is wrong with a label, in a plan or of an agent. nil if nothing is.
func CheckLabel(name, value string) error {
	switch {
	case !label.MatchString(name):
		return errors.New("its name must be 1 to 63 letters, digits and ._/-, the first a letter or digit")
	case name == RegionLabel && value != "":
		return CheckRegion(value)
	case !label.MatchString(value):
		return fmt.Errorf("the value of %s must be 1 to 63 letters, digits and ._/-, the first a letter or digit", name)
	}
	return nil
}

// Labels reads labels as a person types them, each NAME=VALUE.
func Labels(texts []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("%.80q: want NAME=VALUE, such as pool=big", text)
		}
		if err := CheckLabel(name, value); err != nil {
			return nil, fmt.Errorf("%.80q: %w", text, err)
		}
		if _, again := labels[name]; again {
			return nil, fmt.Errorf("%.80q: the label %s is given twice", text, name)
		}
		labels[name] = value
	}
	if len(labels) > MaxLabels {
		return nil, fmt.Errorf("%d labels: want at most %d", len(labels), MaxLabels)
	}
	return labels, nil
}

// LabelTexts lists labels by name, each NAME=VALUE: the opposite of Labels.
func LabelTexts(labels map[string]string) (list []string) {
	return lists.Each(slices.Sorted(maps.Keys(labels)), func(name string) string { return name + "=" + labels[name] })
}

// CheckRegion returns what is wrong with the name of a region, in a plan or of an agent. nil if nothing is.
func CheckRegion(name string) error {
	switch {
	case strings.TrimSpace(name) != name || strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name):
		return errors.New("must be a name without control characters and without spaces around it")
	case len(name) > MaxRegion:
		return fmt.Errorf("must have at most %d bytes, got %d", MaxRegion, len(name))
	}
	return nil
}

// hostAndPort matches an endpoint without a scheme.
var hostAndPort = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9a-fA-F:.]+\]):[0-9]+(/|$)`)

// BaseURL returns an endpoint as stages have it: with a scheme, and without the /v1 that Spate adds. The URLs that
// engines print, and that OpenAI's own clients take, end in it. Other versions stay.
func BaseURL(endpoint string) string {
	if hostAndPort.MatchString(endpoint) {
		endpoint = "http://" + endpoint
	}
	if strings.Contains(endpoint, "?") {
		return endpoint
	}
	endpoint = strings.TrimRight(endpoint, "/")
	if base := strings.TrimRight(strings.TrimSuffix(endpoint, "/v1"), "/"); api.Versioned(base) < 0 {
		return base
	}
	return endpoint
}

// Metrics returns the URL of the metrics of the server behind an endpoint: beside the version of its API.
func Metrics(endpoint string) string {
	base, _, _ := strings.Cut(BaseURL(endpoint), "?")
	if i := api.Versioned(base); i >= 0 {
		base = base[:i]
	}
	return strings.TrimRight(base, "/") + "/metrics"
}

// ValidPort reports whether a URL has a port from 1 to 65535, or none.
func ValidPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && port > 0
}

// Hostname returns the host of a URL without its port, or "" if the address is not a URL.
func Hostname(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// Server returns the host and port of a URL, by which two addresses of one server are known: in lowercase, and with the
// scheme's port if the URL has none. It returns "" if the address is not a URL.
func Server(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// Redacted returns a URL with its password replaced by xxxxx.
func Redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address
	}
	return u.Redacted()
}
