package agent

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// connectError is why a session failed, in words that say what to do. Its cause has gRPC's own.
type connectError struct {
	address  string
	welcomed bool
	cause    error
}

// Error names the coordinator's address and what is wrong there.
func (e *connectError) Error() string {
	text := explain(e.cause)
	if text == broken && !e.welcomed {
		text = "ended the connection before it said anything: its log says why; it may not accept this agent's certificate (another authority " +
			"or role, see `spate certs --help`)"
	}
	return fmt.Sprintf("coordinator %s: %s", plainAddress(e.address), text)
}

// Unwrap returns what gRPC said.
func (e *connectError) Unwrap() error { return e.cause }

// plainAddress is a gRPC target as a person would type it.
func plainAddress(target string) string {
	if i := strings.LastIndex(target, "/"); strings.Contains(target, "://") {
		return target[i+1:]
	}
	return target
}

// explain says what an error of a session means.
func explain(err error) string {
	s, ok := status.FromError(err)
	switch {
	case !ok:
		return err.Error()
	case s.Code() == codes.Unavailable:
		return explainTransport(s.Message())
	case s.Code() == codes.Unimplemented:
		return "who answers there is no Spate coordinator of this version: check the address and the port"
	default:
		return s.Message()
	}
}

// broken is a connection that ended without a word.
const broken = "the connection broke"

// meanings of what is found in gRPC's texts, the first that is found counts. The texts are those of the operating system, of Go's TLS and of
// gRPC.
var meanings = []struct{ text, meaning string }{
	{"connection refused", "refuses connections: nothing listens there; see that the coordinator runs, and that host and port are right"},
	{"no such host", "the name is not known: check its spelling and DNS"},
	{"server misbehaving", "the name cannot be looked up: check its spelling and DNS"},
	{"name resolver error", "the name cannot be looked up: check its spelling and DNS"},
	{"no route to host", "there is no route to it: check the address, the network and firewalls"},
	{"network is unreachable", "there is no route to it: check the address, the network and firewalls"},
	{"signed by unknown authority", "its certificate is of another authority: give all programs certificates of one cluster (see `spate certs --help`)"},
	{"who answers is no coordinator", "its certificate is none of a coordinator: check the address, and the certificate it was started with"},
	{"says no role of Spate's", "its certificate is none of Spate's: check the address, and make certificates with `spate certs`"},
	{"certificate has expired or is not yet valid", "its certificate is not valid now: make a new one with `spate certs`, and check this machine's date"},
	{"remote error: tls:", "does not accept this agent's certificate: use one of the same authority with the role of an agent (see `spate certs --help`)"},
	{"first record does not look like a TLS handshake", "does not speak TLS: it was started without certificates, or is no coordinator"},
	{"authentication handshake failed: EOF", "ends the connection instead of speaking TLS: it was started without certificates, or is no coordinator"},
	{"authentication handshake failed: context deadline exceeded", "does not answer in TLS: it was started without certificates, or is no coordinator"},
	{"error reading server preface", "what answers there is no Spate coordinator, or one that wants TLS: check the port, and give --tls-ca, --tls-cert and --tls-key if it has certificates"},
	{"frame too large", "what answers there is no Spate coordinator, or one that wants TLS: check the port, and give --tls-ca, --tls-cert and --tls-key if it has certificates"},
	{"i/o timeout", "does not answer: see that the machine is up, and that no firewall drops the port"},
	{"context deadline exceeded", "does not answer: see that the machine is up, and that no firewall drops the port"},
	{"error reading from server", broken},
	{"connection reset by peer", broken},
	{"broken pipe", broken},
	{"transport is closing", broken},
}

// explainTransport says what a text about a connection means. One that is not known is told as it is, less gRPC's wrapping.
func explainTransport(text string) string {
	for _, m := range meanings {
		if strings.Contains(text, m.text) {
			return m.meaning
		}
	}
	return unwrapped(text)
}

// unwrapped takes off what gRPC puts around the reason of a connection's failure.
func unwrapped(text string) string {
	if _, inner, found := strings.Cut(text, "connection error: desc = "); found {
		if plain, err := strconv.Unquote(inner); err == nil {
			text = plain
		}
	}
	return strings.TrimPrefix(text, "transport: ")
}

// mostComplaints bounds what is remembered: after that many different ones they are said again.
const mostComplaints = 64

// complaints are the reasons that were said since all was well.
type complaints map[string]bool

// isNew reports whether a reason was not said yet, and remembers it.
func (c *complaints) isNew(err error) bool {
	text := err.Error()
	if (*c)[text] {
		return false
	}
	if *c == nil || len(*c) >= mostComplaints {
		*c = complaints{}
	}
	(*c)[text] = true
	return true
}
