package access

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/spate-load/spate/internal/files"
)

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

// Policy returns what the file says now. If it cannot be read or has a mistake, what it said before holds, and the log
// says why. It blocks while the file is read.
func (f *File) Policy() *Policy {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.read(); err != nil {
		f.log.Error("the access file cannot be used: what it said before holds", "error", err)
	}
	return f.policy
}
