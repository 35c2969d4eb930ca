// Package store keeps datasets' rows files in a directory, each under the SHA-256 of its bytes.
//
// A file is there in whole or not at all: it is written under another name, checked against its hash and renamed. So
// several processes may share a directory, and a file that somebody copied there by hand under its right name is as
// good as one that came over the network. The command that submits a plan, the coordinator and the agents each have
// one. A file's time of modification is when it was last used: by it, Prune keeps a directory within limits.
package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"regexp"
)

// Store is a directory of datasets. It is safe for concurrent use, by several processes too.
type Store struct{ dir string }

// Open returns the store in a directory, which it makes if it is not there.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("directory of datasets: %w", err)
	}
	return &Store{dir}, nil
}

// suffix of the files' names, so that people know what they are.
const suffix = ".rows"

// incoming is what the names of files begin with that are being written.
const incoming = "incoming-"

// What can be wrong with a dataset's name.
var (
	// ErrHash says that a name is no SHA-256.
	ErrHash = errors.New("want a SHA-256 in 64 lowercase hexadecimal digits")
	// ErrUnknown says that a dataset is not in the store.
	ErrUnknown = errors.New("no such dataset")
)

var hashPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// file returns the path of a dataset. Only a hash becomes a file's name.
func (s *Store) file(sha256 string) (string, error) {
	if !hashPattern.MatchString(sha256) {
		return "", fmt.Errorf("dataset %.80q: %w", sha256, ErrHash)
	}
	return filepath.Join(s.dir, sha256+suffix), nil
}

// Open opens a dataset for reading, whatever its size. The caller closes it. The error is ErrHash or ErrUnknown, or
// says why the file cannot be opened.
func (s *Store) Open(sha256 string) (*os.File, error) {
	path, err := s.file(sha256)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("dataset %s: %w", sha256, ErrUnknown)
	}
	if err == nil {
		used(path)
	}
	return f, err
}

// Path returns where a dataset lies or would lie, and whether it is there with this size. An error: it cannot be known.
func (s *Store) Path(sha256 string, size uint64) (path string, found bool, err error) {
	if path, err = s.file(sha256); err != nil {
		return "", false, err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return path, false, nil
	case err != nil:
		return path, false, fmt.Errorf("dataset: %w", err)
	case uint64(info.Size()) != size:
		return path, false, fmt.Errorf("dataset %s has %d bytes and not %d: it is damaged, delete it", path,
			info.Size(), size)
	}
	used(path)
	return path, true, nil
}

// Incoming is a dataset that is being written. It is for one goroutine. The caller commits or discards it.
type Incoming struct {
	store  *Store
	file   *os.File
	sum    hash.Hash
	sha256 string
	size   uint64
	have   uint64
}

// Receive begins to write a dataset whose hash and size are known before.
func (s *Store) Receive(sha256 string, size uint64) (*Incoming, error) {
	if _, err := s.file(sha256); err != nil {
		return nil, err
	}
	in, err := s.begin()
	if err != nil {
		return nil, err
	}
	in.sha256, in.size = sha256, size
	return in, nil
}

func (s *Store) begin() (*Incoming, error) {
	f, err := os.CreateTemp(s.dir, incoming+"*")
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	return &Incoming{store: s, file: f, sum: sha256.New()}, nil
}

// Have returns how many bytes were written: where an interrupted transfer goes on.
func (in *Incoming) Have() uint64 { return in.have }

// Write takes in the next bytes. It refuses more than were announced, so that a sender cannot fill the disk.
func (in *Incoming) Write(p []byte) (int, error) {
	if in.have+uint64(len(p)) > in.size {
		return 0, fmt.Errorf("dataset %s: more than the %d bytes that were announced", in.sha256, in.size)
	}
	n, err := in.file.Write(p)
	in.sum.Write(p[:n])
	in.have += uint64(n)
	if err != nil {
		return n, fmt.Errorf("dataset %s: %w", in.sha256, err)
	}
	return n, nil
}

// Commit checks size and hash and makes the dataset part of the store. It returns where it lies. After it, Discard does
// nothing.
func (in *Incoming) Commit() (string, error) {
	got := hex.EncodeToString(in.sum.Sum(nil))
	if in.have != in.size || got != in.sha256 {
		return "", fmt.Errorf("dataset %s of %d bytes: got %d bytes with the hash %s", in.sha256, in.size, in.have, got)
	}
	if err := errors.Join(in.file.Sync(), in.file.Close()); err != nil {
		return "", fmt.Errorf("dataset %s: %w", in.sha256, err)
	}
	path, err := in.store.file(in.sha256)
	if err != nil {
		return "", err
	}
	if err := os.Rename(in.file.Name(), path); err != nil {
		return "", fmt.Errorf("dataset %s: %w", in.sha256, err)
	}
	in.file = nil
	return path, nil
}

// Discard gives up what was not committed and deletes it.
func (in *Incoming) Discard() error {
	if in.file == nil {
		return nil
	}
	name := in.file.Name()
	err := errors.Join(in.file.Close(), os.Remove(name))
	in.file = nil
	if errors.Is(err, os.ErrClosed) {
		return nil // a commit that failed after it had closed the file
	}
	return err
}

// Adopt makes a file that build wrote part of the store, under the hash that build returns with it. build gets an empty
// file and must not close it.
func (s *Store) Adopt(build func(f *os.File) (sha256 string, err error)) (path string, err error) {
	in, err := s.begin()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, in.Discard()) }()
	hash, err := build(in.file)
	if err != nil {
		return "", err
	}
	if in.size, err = in.reread(); err != nil {
		return "", err
	}
	in.sha256, in.have = hash, in.size
	return in.Commit()
}

// reread works out the hash of what build wrote, which need not be in order.
func (in *Incoming) reread() (size uint64, err error) {
	if _, err := in.file.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := io.Copy(in.sum, in.file)
	return uint64(n), err
}
