package process

import (
	"bytes"
	"sync"
)

// Output keeps what a process says. It may be used while the process runs.
type Output struct {
	mu      sync.Mutex
	said    bytes.Buffer
	changed chan struct{}
}

// Write takes in what the process says.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
	return o.said.Write(b)
}

// now returns what was said, and a channel that is closed when there is more.
func (o *Output) now() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.said.String(), o.changed
}

// String is all that was said so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.said.String()
}
