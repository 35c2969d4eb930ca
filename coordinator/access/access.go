// Package access is a coordinator's door. Admission decides who may connect, which services a certificate reaches, and
// how much each peer may ask. CheckHello and CheckClient decide which introductions of agents and clients are valid.
// Policy decides which callers may change something, and which targets their plans may load, by a file that the
// coordinator's owner writes. AuditLog writes down who changed something.
//
// The package knows nothing of runs, sessions and ledgers. It counts and logs what it refuses.
package access

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"

	"github.com/spate-load/spate/agent/allow"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/plans/naming"
	"github.com/spate-load/spate/plans/servermetrics"
)

// Role is what a person or a program may do. Each role may do what the one before it may.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"   // list and follow runs, fetch their results
	Runner   Role = "runner"   // submit runs, and stop and remove its own
	Operator Role = "operator" // stop and remove any run, cordon and drain agents
)

// roles are all roles.
var roles = []Role{Viewer, Runner, Operator}

// Policy is who may do what. A nil Policy allows everything.
type Policy struct {
	otherwise Role
	people    map[string]Role
	tokens    []token
	targets   map[Role]allow.List
}

// token is a secret and who holds it.
type token struct {
	name string
	role Role
	sum  [sha256.Size]byte // of the secret
}

// document is the file.
type document struct {
	Default Role                 `yaml:"default"`
	People  map[string]Role      `yaml:"people"`
	Tokens  map[string]tokenForm `yaml:"tokens"`
	Targets map[Role][]string    `yaml:"targets"`
}

type tokenForm struct {
	Role   Role   `yaml:"role"`
	Secret string `yaml:"secret"`
}

// Parse reads a policy in YAML. secret returns the value that a token's "env:NAME" or "file:PATH" refers to. The error
// has all mistakes.
func Parse(text []byte, secret func(reference string) (string, error)) (*Policy, error) {
	var d document
	err := files.YAML(text, &d)
	if err != nil {
		return nil, err
	}
	p := &Policy{otherwise: d.Default, people: d.People, targets: map[Role]allow.List{}}
	if d.Default == "" {
		p.otherwise = Viewer
	}
	errs := []error{checkRole("default", p.otherwise)}
	for _, name := range slices.Sorted(maps.Keys(d.People)) {
		errs = append(errs, checkRole("people: "+name, d.People[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Tokens)) {
		errs = append(errs, p.addToken(name, d.Tokens[name], secret))
	}
	for _, role := range slices.Sorted(maps.Keys(d.Targets)) {
		list, err := hostsOf(d.Targets[role])
		if err = errors.Join(checkRole("role", role), err); err != nil {
			errs = append(errs, fmt.Errorf("targets: %w", err))
		}
		p.targets[role] = list
	}
	return p, errors.Join(errs...)
}

// checkRole refuses a role that there is not.
func checkRole(where string, r Role) error {
	if slices.Contains(roles, r) {
		return nil
	}
	return fmt.Errorf("%s: %q: want viewer, runner or operator", where, r)
}

// leastSecret is the shortest secret of a token, in bytes.
const leastSecret = 16

func (p *Policy) addToken(name string, form tokenForm, secret func(string) (string, error)) error {
	where := "tokens: " + name
	if err := checkRole(where, form.Role); err != nil {
		return err
	}
	value, err := secret(form.Secret)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if len(value) < leastSecret {
		return fmt.Errorf("%s: its secret has %d bytes: want at least %d", where, len(value), leastSecret)
	}
	p.tokens = append(p.tokens, token{name, form.Role, sha256.Sum256([]byte(value))})
	return nil
}

// hostsOf reads a list of hosts. An empty list would allow every host, and is refused as a mistake.
func hostsOf(entries []string) (allow.List, error) {
	if len(entries) == 0 {
		return allow.List{}, errors.New("name at least one host")
	}
	return allow.Parse(entries)
}

// HasTokens reports whether a token gives somebody a right.
func (p *Policy) HasTokens() bool { return p != nil && len(p.tokens) > 0 }

// Holder returns the name of the holder of a secret. It compares in a time that does not depend on what is the same.
func (p *Policy) Holder(secret string) (name string, ok bool) {
	if p == nil {
		return "", false
	}
	sum := sha256.Sum256([]byte(secret))
	for _, t := range p.tokens {
		if subtle.ConstantTimeCompare(t.sum[:], sum[:]) == 1 {
			name, ok = t.name, true
		}
	}
	return name, ok
}

// RoleOf returns the role of a caller. The holder of the coordinator's own token is an operator.
func (p *Policy) RoleOf(c Caller) Role {
	switch {
	case p == nil || c.Proof == Token:
		return Operator
	case c.Proof == NamedToken:
		for _, t := range p.tokens {
			if t.name == c.By {
				return t.role
			}
		}
	case c.Proof == Certificate && p.people[c.By] != "":
		return p.people[c.By]
	}
	return p.otherwise
}

// MaySubmit returns an error if a caller may not submit runs or upload datasets.
func (p *Policy) MaySubmit(c Caller) error {
	if role := p.RoleOf(c); role != Runner && role != Operator {
		return fmt.Errorf("%s is a %s: submitting runs needs the role runner", callerWords(c), role)
	}
	return nil
}

// MayEnd returns an error if a caller may not stop or remove a run of a submitter, who is named as Caller.String
// names callers.
func (p *Policy) MayEnd(c Caller, submitter string) error {
	role := p.RoleOf(c)
	if role == Operator || role == Runner && c.String() == submitter {
		return nil
	}
	return fmt.Errorf("%s is a %s, and the run is of %s: only they or an operator may stop or remove it", callerWords(c),
		role, cmp.Or(submitter, "somebody whose name is not known"))
}

// MayOperate returns an error if a caller may not change agents.
func (p *Policy) MayOperate(c Caller) error {
	if role := p.RoleOf(c); role != Operator {
		return fmt.Errorf("%s is a %s: this needs the role operator", callerWords(c), role)
	}
	return nil
}

// callerWords names a caller in a sentence.
func callerWords(c Caller) string {
	if name := c.String(); name != "" {
		return name
	}
	return "a caller without a certificate or token"
}

// CheckTargets returns an error for the first target that the plans of a caller's role may not load. Names are not
// looked up: a host that is allowed by its address must be given by it.
func (p *Policy) CheckTargets(c Caller, stages []*spatev1.Stage) error {
	if p == nil {
		return nil
	}
	role := p.RoleOf(c)
	list, limited := p.targets[role]
	if !limited {
		return nil
	}
	for _, s := range stages {
		for _, address := range addressesOf(s.GetTarget()) {
			if !has(list, address) {
				return fmt.Errorf("target %s: %s: plans of a %s may load only %s", s.GetTarget().GetName(), address, role,
					list)
			}
		}
	}
	return nil
}

// addressesOf returns the URLs to which agents send something for a target.
func addressesOf(t *spatev1.Target) []string {
	all := slices.Concat(t.GetEndpoints(), servermetrics.Sources(t))
	if proxy := t.GetConnection().GetProxy(); proxy != "" {
		all = append(all, proxy)
	}
	return all
}

// has reports whether a list has the host of a URL.
func has(list allow.List, address string) bool {
	u, err := url.Parse(naming.BaseURL(address))
	return err == nil && list.CheckName(u) == nil
}

// maxFile is the largest policy, in bytes.
const maxFile = 1 << 20

// File is a policy in a file, which is read again when it has changed. Its methods may be called concurrently. A nil
// File has a policy that allows everything.
type File struct {
	path   string
	secret func(string) (string, error)
	log    *slog.Logger

	mu      sync.Mutex
	policy  *Policy
	changed time.Time
	size    int64
}

// Open reads a policy. secret returns the value behind a reference, as for Parse.
func Open(path string, secret func(string) (string, error), log *slog.Logger) (*File, error) {
	f := &File{path: path, secret: secret, log: log}
	if err := f.read(); err != nil {
		return nil, err
	}
	return f, nil
}

// read reads the file if it has changed. A file with a mistake is not read again until it changes once more. f.mu is
// held, or nobody else has f.
func (f *File) read() error {
	info, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	if f.policy != nil && info.ModTime().Equal(f.changed) && info.Size() == f.size {
		return nil
	}
	f.changed, f.size = info.ModTime(), info.Size()
	text, err := files.ReadFile(f.path, maxFile)
	if err != nil {
		return err
	}
	policy, err := Parse(text, f.secret)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.policy = policy
	return nil
}

// Policy returns what the file says now. If it cannot be read or is invalid, the old rules stay, and the log
// says why. It blocks while the file is read.
func (f *File) Policy() *Policy {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.read(); err != nil {
		f.log.Error("the access file is invalid: the old rules stay", "error", err)
	}
	return f.policy
}
