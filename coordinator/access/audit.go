package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spate-load/spate/certs"
)

// auditFile is the file in the data directory.
const auditFile = "audit.jsonl"

// Action is what was done, in a word.
type Action string

// The actions.
const (
	Submit   Action = "submit"
	Stop     Action = "stop"
	Remove   Action = "remove"
	Cordon   Action = "cordon"
	Drain    Action = "drain"
	Uncordon Action = "uncordon"
)

// AuditEntry is one line.
type AuditEntry struct {
	// Time is when it was done. Zero: now.
	Time time.Time `json:"time"`
	// Action is what was done.
	Action Action `json:"action"`
	// Caller is who did it.
	Caller
	// Run is the ID of the run that it was done to, empty for none.
	Run string `json:"run,omitempty"`
	// Immediately is set if a stop cancelled requests in flight.
	Immediately bool `json:"immediately,omitempty"`
	// Agents are the names of the agents that it was done to.
	Agents []string `json:"agents,omitempty"`
}

// Caller is who called.
type Caller struct {
	// By is the name in the certificate, the holder of a named token, or the user that came with the coordinator's own.
	// Empty: not known.
	By string `json:"by,omitempty"`
	// Proof is how the caller proved the right to call. A user that comes with the coordinator's own token
	// is only what the caller says.
	Proof Proof `json:"proof"`
	// Address is the caller's IP address and port. Empty: not known.
	Address string `json:"address,omitempty"`
}

// Proof is how a caller proved the right to call.
type Proof string

// The proofs.
const (
	Certificate Proof = "certificate"
	Token       Proof = "token"       // the coordinator's own token
	NamedToken  Proof = "named token" // a token that belongs to somebody
	NoProof     Proof = "none"        // none was needed: a coordinator without certificates
)

// tokenKey is the key of a caller that came with a token, in a context.
type tokenKey struct{}

// WithToken returns a context whose caller has proved the right to call by the coordinator's own token. user is the
// name that came with it, empty for none.
func WithToken(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, tokenKey{}, Caller{By: strings.ToValidUTF8(user[:min(len(user), mostUser)], ""),
		Proof: Token})
}

// WithNamedToken returns a context whose caller has proved by a token to be its holder.
func WithNamedToken(ctx context.Context, holder string) context.Context {
	return context.WithValue(ctx, tokenKey{}, Caller{By: holder, Proof: NamedToken})
}

// mostUser bounds the name that comes with a token, in bytes.
const mostUser = 64

// CallerOf returns who calls. An agent's certificate proves nothing about a person.
func CallerOf(ctx context.Context) Caller {
	c := Caller{Proof: NoProof}
	if who, ok := certs.PeerOf(ctx); ok && who.Role == certs.Client {
		c = Caller{By: who.Name, Proof: Certificate}
	}
	if holder, ok := ctx.Value(tokenKey{}).(Caller); ok {
		c = holder
	}
	c.Address = AddressOf(ctx)
	return c
}

// String returns the caller for lists of runs: the name in the certificate, or "token" and its holder or the user that
// came with it, so that no client is listed under a name that belongs to a certificate. Empty: not known.
func (c Caller) String() string {
	if c.Proof == Token || c.Proof == NamedToken {
		return strings.TrimSpace("token " + c.By)
	}
	return c.By
}

// Host returns the address without the port. Empty: not known.
func (c Caller) Host() string {
	if host, _, err := net.SplitHostPort(c.Address); err == nil {
		return host
	}
	return c.Address
}

// AuditLog is an audit log. Its methods may be called concurrently. A zero AuditLog keeps nothing.
type AuditLog struct {
	mu   sync.Mutex
	path string
}

// Open makes a log that keeps its file in a directory. It opens nothing yet.
func (l *AuditLog) Open(dir string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.path = filepath.Join(dir, auditFile)
}

// Add writes an entry, and blocks until it is durable.
func (l *AuditLog) Add(e AuditEntry) error {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time = e.Time.UTC()
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.path == "" {
		return nil
	}
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	if torn(f) {
		line = append([]byte("\n"), line...)
	}
	_, err = f.Write(append(line, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	return nil
}

// torn reports whether the last line of a file has no end, because the disk was full or the machine stopped. An entry
// that continued that line could not be read.
func torn(f *os.File) bool {
	last := []byte("\n")
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		_, _ = f.ReadAt(last, info.Size()-1) // unreadable: an entry may still be appended
	}
	return last[0] != '\n'
}
