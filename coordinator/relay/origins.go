package relay

import (
	"sync"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// origin is what a bundle must know of an agent.
type origin struct {
	stream      uint64 // number of its control stream
	incarnation uint64
	region      string
	observer    bool // of the stage that the agent was assigned last
}

// origins has the agents with a control stream, by name. The zero value is ready to use.
type origins struct {
	mu  sync.Mutex
	all map[string]origin
}

// heard notes what an agent says of itself in a message of a control stream. It returns the agent's name, empty if the
// message has none.
func (o *origins) heard(stream uint64, m *spatev1.ConnectRequest) string {
	h := m.GetHello()
	if h == nil {
		return ""
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[string]origin{}
	}
	o.all[h.GetAgent().GetName()] = origin{
		stream: stream, incarnation: h.GetIncarnation(), region: h.GetAgent().GetRegion(),
	}
	return h.GetAgent().GetName()
}

// told notes what an agent is assigned.
func (o *origins) told(agent string, m *spatev1.ConnectResponse) {
	a := m.GetAssign()
	if a == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if of, ok := o.all[agent]; ok {
		of.observer = a.GetObserver()
		o.all[agent] = of
	}
}

// forget removes an agent whose control stream has ended, unless it has another one by now.
func (o *origins) forget(stream uint64, agent string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all[agent].stream == stream {
		delete(o.all, agent)
	}
}

// of returns where a snapshot is from, false if its agent has no control stream here.
func (o *origins) of(k *spatev1.SnapshotKey) (origin, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	of, ok := o.all[k.GetAgent()]
	return of, ok && of.incarnation == k.GetIncarnation()
}
