package plancmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/words"
)

// reading reads a file of a plan until its context ends, and shows progress to a person at a terminal. Small files are
// read before anything is shown.
type reading struct {
	ctx   context.Context
	src   io.ReadCloser
	name  string
	size  int64 // 0: not known
	notes io.Writer

	have  int64
	next  time.Time // when progress is shown next
	shown bool
}

// Progress is shown after showReadingAfter, and then every showReadingEach.
const (
	showReadingAfter = 300 * time.Millisecond
	showReadingEach  = 100 * time.Millisecond
)

// newReading starts to read. Close closes the file and clears the progress line.
func newReading(ctx context.Context, src io.ReadCloser, name string, notes io.Writer, quiet bool) *reading {
	r := &reading{ctx: ctx, src: src, name: name, notes: notes, next: time.Now().Add(showReadingAfter)}
	if file, ok := src.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			r.size = info.Size()
		}
	}
	if quiet {
		r.notes = io.Discard
	}
	return r
}

// Read implements io.Reader.
func (r *reading) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	n, err := r.src.Read(p)
	r.have += int64(n)
	if now := time.Now(); now.After(r.next) {
		r.next = now.Add(showReadingEach)
		r.show()
	}
	return n, err
}

func (r *reading) show() {
	width := terminal.Width(r.notes)
	if width == 0 {
		return
	}
	r.shown = true
	fmt.Fprint(r.notes, "\r\x1b[K"+words.Cut("reading "+r.name+": "+r.words(), width))
}

// words says how much was read.
func (r *reading) words() string {
	const mebi = 1 << 20
	if r.size == 0 {
		return fmt.Sprintf("%.1f MiB", float64(r.have)/mebi)
	}
	return fmt.Sprintf("%.1f of %.1f MiB, %d %%", float64(r.have)/mebi, float64(r.size)/mebi,
		min(100, 100*r.have/r.size))
}

// ReadAt implements io.ReaderAt for regular files.
func (r *reading) ReadAt(p []byte, offset int64) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	file, ok := r.src.(*os.File)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return file.ReadAt(p, offset)
}

// Size returns the size of the file. 0: it is not a regular file.
func (r *reading) Size() int64 { return r.size }

// Close closes the file and removes the line.
func (r *reading) Close() error {
	if r.shown {
		fmt.Fprint(r.notes, "\r\x1b[K")
	}
	return r.src.Close()
}
