package process

import (
	"bytes"
	"sync"
)

// Output keeps what a process prints. It may be read while the process runs.
type Output struct {
	mu      sync.Mutex
	said    bytes.Buffer
	changed chan struct{}
}

// Write appends what the process prints.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
	return o.said.Write(b)
}

// now returns the output so far, and a channel that is closed when there is more.
func (o *Output) now() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.said.String(), o.changed
}

// String returns the output so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.said.String()
}
