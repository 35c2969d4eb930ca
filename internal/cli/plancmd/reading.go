package plancmd

import (
	"context"
	"errors"
	"io"
	"os"
)

// reading reads a file of a plan until its context ends.
type reading struct {
	ctx context.Context
	io.ReadCloser
}

// Read implements io.Reader.
func (r *reading) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.ReadCloser.Read(p)
}

// ReadAt implements io.ReaderAt for regular files.
func (r *reading) ReadAt(p []byte, offset int64) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	file, ok := r.ReadCloser.(*os.File)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return file.ReadAt(p, offset)
}

// Size returns the size of the file. 0: it is not a regular file.
func (r *reading) Size() int64 {
	if file, ok := r.ReadCloser.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return info.Size()
		}
	}
	return 0
}
