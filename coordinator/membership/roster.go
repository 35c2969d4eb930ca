package membership

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/hashicorp/memberlist"
)

// roster holds the live nodes. memberlist's own list returns pointers to nodes that it keeps writing to, so nodes are
// copied in its callbacks. The callbacks hold memberlist's locks, so nothing here may call memberlist.
type roster struct {
	log *slog.Logger

	mu      sync.Mutex
	nodes   map[string]Member
	changed chan struct{} // closed and replaced at each change
}

func newRoster(log *slog.Logger) *roster {
	return &roster{log: log, nodes: map[string]Member{}, changed: make(chan struct{})}
}

// NotifyJoin adds a node: without a role if its meta cannot be parsed.
func (r *roster) NotifyJoin(n *memberlist.Node) {
	at := func(port uint16) string { return net.JoinHostPort(n.Addr.String(), strconv.Itoa(int(port))) }
	meta, err := ParseMeta(n.Meta)
	if err != nil {
		r.log.Debug("gossip member ignored", "node", n.Name, "reason", err)
	}
	m := Member{Name: n.Name, Process: withoutSuffix(n.Name), Role: meta.Role, Region: meta.Region, Gossip: at(n.Port)}
	if meta.GRPCPort != 0 {
		m.GRPC = at(meta.GRPCPort)
	}
	r.change(func() { r.nodes[n.Name] = m })
}

// NotifyUpdate replaces a node.
func (r *roster) NotifyUpdate(n *memberlist.Node) { r.NotifyJoin(n) }

// NotifyLeave removes a node that has left or died.
func (r *roster) NotifyLeave(n *memberlist.Node) { r.change(func() { delete(r.nodes, n.Name) }) }

// change changes the nodes, and wakes all who wait for that.
func (r *roster) change(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
	close(r.changed)
	r.changed = make(chan struct{})
}

// all returns the live nodes, sorted by name.
func (r *roster) all() []Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.nodes), func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
}

// size returns the number of live nodes.
func (r *roster) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.nodes)
}

// Role is what a member of the cluster does.
type Role uint8

// The roles. The values are on the wire.
const (
	RoleCoordinator Role = 1
	RoleAgent       Role = 2
)

// Meta is what a member tells the others about itself. It must stay far below memberlist's limit of 512 bytes: beyond
// the limit memberlist panics.
type Meta struct {
	Role Role
	// GRPCPort is the port of the member's gRPC services, at the address that it advertises. 0: it has none.
	GRPCPort uint16
	// Region is the member's region. It may be empty, and is cut to MaxRegion bytes.
	Region string
}

// MaxRegion is the most bytes of a region that gossip carries.
const MaxRegion = 64

// metaVersion is the first byte. Members with another version are ignored.
const metaVersion = 1

// metaHead is the size of version, role and port in bytes.
const metaHead = 4

// errMeta is wrapped by all errors of ParseMeta.
var errMeta = errors.New("membership: meta not understood")

// Encode returns the encoded meta: version, role, port (big endian), region.
func (m Meta) Encode() []byte {
	b := make([]byte, 0, metaHead+MaxRegion)
	b = append(b, metaVersion, byte(m.Role))
	b = binary.BigEndian.AppendUint16(b, m.GRPCPort)
	return append(b, strings.ToValidUTF8(m.Region[:min(len(m.Region), MaxRegion)], "")...)
}

// ParseMeta decodes what Encode wrote. Anything else is an error.
func ParseMeta(b []byte) (Meta, error) {
	if len(b) < metaHead || len(b) > metaHead+MaxRegion {
		return Meta{}, fmt.Errorf("%w: %d bytes, want %d to %d", errMeta, len(b), metaHead, metaHead+MaxRegion)
	}
	if b[0] != metaVersion {
		return Meta{}, fmt.Errorf("%w: version %d, want %d", errMeta, b[0], metaVersion)
	}
	m := Meta{Role: Role(b[1]), GRPCPort: binary.BigEndian.Uint16(b[2:]), Region: string(b[metaHead:])}
	if m.Role != RoleCoordinator && m.Role != RoleAgent {
		return Meta{}, fmt.Errorf("%w: role %d", errMeta, m.Role)
	}
	if !utf8.ValidString(m.Region) {
		return Meta{}, fmt.Errorf("%w: region %q is not UTF-8", errMeta, m.Region)
	}
	return m, nil
}
