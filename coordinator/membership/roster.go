package membership

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/memberlist"
)

// node is a copy of what memberlist knows of a live node.
type node struct {
	name, gossip string
	ip           string
	meta         []byte
}

// roster holds the live nodes. memberlist's own list returns pointers to nodes that it keeps writing to, so nodes are
// copied in its callbacks. The callbacks hold memberlist's locks, so nothing here may call memberlist.
type roster struct {
	changed chan struct{}     // capacity 1: "look again"
	left    func(name string) // called for each node that has left or died

	mu    sync.Mutex
	nodes map[string]node
}

func newRoster(left func(name string)) *roster {
	return &roster{changed: make(chan struct{}, 1), left: left, nodes: map[string]node{}}
}

// NotifyJoin adds a node.
func (r *roster) NotifyJoin(n *memberlist.Node) {
	ip := n.Addr.String()
	r.mu.Lock()
	r.nodes[n.Name] = node{
		name: n.Name, ip: ip, gossip: net.JoinHostPort(ip, strconv.Itoa(int(n.Port))), meta: slices.Clone(n.Meta),
	}
	r.mu.Unlock()
	r.wake()
}

// NotifyUpdate replaces a node.
func (r *roster) NotifyUpdate(n *memberlist.Node) { r.NotifyJoin(n) }

// NotifyLeave removes a node that has left or died.
func (r *roster) NotifyLeave(n *memberlist.Node) {
	r.mu.Lock()
	delete(r.nodes, n.Name)
	r.mu.Unlock()
	r.left(n.Name)
	r.wake()
}

func (r *roster) wake() {
	select {
	case r.changed <- struct{}{}:
	default: // a wake-up is pending
	}
}

// all returns the live nodes, sorted by name. Callers must not change their meta.
func (r *roster) all() []node {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]node, 0, len(r.nodes))
	for _, n := range r.nodes {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b node) int { return strings.Compare(a.name, b.name) })
	return out
}

// size returns the number of live nodes.
func (r *roster) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.nodes)
}
