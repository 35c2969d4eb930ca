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

// roster holds the live nodes. memberlist's own list hands out pointers to nodes that it goes on writing to, so they
// are copied in its callbacks, which hold its locks: nothing here calls back.
type roster struct {
	changed chan struct{}     // capacity 1: "look again"
	left    func(name string) // told of each node that has left or died

	mu    sync.Mutex
	nodes map[string]node
}

func newRoster(left func(name string)) *roster {
	return &roster{changed: make(chan struct{}, 1), left: left, nodes: map[string]node{}}
}

// NotifyJoin takes a node in.
func (r *roster) NotifyJoin(n *memberlist.Node) {
	ip := n.Addr.String()
	r.mu.Lock()
	r.nodes[n.Name] = node{
		name: n.Name, ip: ip, gossip: net.JoinHostPort(ip, strconv.Itoa(int(n.Port))), meta: slices.Clone(n.Meta),
	}
	r.mu.Unlock()
	r.wake()
}

// NotifyUpdate takes a node in again.
func (r *roster) NotifyUpdate(n *memberlist.Node) { r.NotifyJoin(n) }

// NotifyLeave drops a node that has left or died.
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
	default: // one is waiting already
	}
}

// all returns the live nodes by name. Their meta is not to be changed.
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
