// Package store keeps the rows files of datasets in a directory, each named by the SHA-256 of its bytes.
//
// A file is either whole or absent: it is written under another name, checked against its hash and renamed. So several
// processes may share a directory, and a file copied there by hand under its right name is as good as one that came
// over the network. A file whose hash is wrong is set aside, and then absent: it is built or sent again. The command
// that submits a plan, the coordinator and the agents have one store each. A file's modification time is when it was
// last used: by it, Prune keeps a directory within limits.
package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"
)

// Store is a directory of datasets. It is safe for concurrent use, by several processes too.
type Store struct{ dir string }

// Open returns the store in a directory, which it creates if necessary.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("directory of datasets: %w", err)
	}
	return &Store{dir}, nil
}

// suffix of dataset files, so that people can tell what they are.
const suffix = ".rows"

// damaged is the prefix of the names of files that were set aside.
const damaged = "damaged-"

// incoming is the prefix of the names of files that are still being written.
const incoming = "incoming-"

// Errors about a dataset's name.
var (
	// ErrHash means that a name is not a SHA-256.
	ErrHash = errors.New("not a SHA-256: give 64 lowercase hexadecimal digits")
	// ErrUnknown means that a dataset is not in the store.
	ErrUnknown = errors.New("no such dataset")
)

var hashPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// file returns the path of a dataset. It accepts only a hash, so that no other path can be named.
func (s *Store) file(sha256 string) (string, error) {
	if !hashPattern.MatchString(sha256) {
		return "", fmt.Errorf("dataset %.80q: %w", sha256, ErrHash)
	}
	return filepath.Join(s.dir, sha256+suffix), nil
}

// Open opens a dataset for reading, whatever its size. The caller closes it. The error wraps ErrHash or ErrUnknown, or
// says why the file cannot be opened.
func (s *Store) Open(sha256 string) (*os.File, error) {
	path, err := s.file(sha256)
	if err != nil {
		return nil, err
	}
	switch found, err := s.sound(path, sha256); {
	case err != nil:
		return nil, fmt.Errorf("dataset: %w", err)
	case !found:
		return nil, fmt.Errorf("dataset %s: %w", sha256, ErrUnknown)
	}
	return os.Open(path)
}

// Path returns the path that a dataset has, or would have, in the store, and reports whether the dataset is there. It
// returns an error if the name is not a hash, if the dataset has another size, or if the file cannot be examined.
func (s *Store) Path(sha256 string, size uint64) (path string, found bool, err error) {
	if path, err = s.file(sha256); err != nil {
		return "", false, err
	}
	found, err = s.sound(path, sha256)
	if err != nil || !found {
		return path, false, err
	}
	if info, err := os.Stat(path); err == nil && uint64(info.Size()) != size {
		return path, false, fmt.Errorf("dataset %s has %d bytes instead of %d", path, info.Size(), size)
	}
	return path, true, nil
}

// known has the files whose hash was right, as they were then: hashing takes a second for each gigabyte.
var known sync.Map // path: hashed

// hashed is a file that was hashed at some time.
type hashed struct {
	file os.FileInfo
	at   time.Time
}

// sound reports whether a dataset is there, and marks it as used. It blocks while it hashes the file, once an hour. A
// file with another hash is set aside: renamed, and deleted when it is a day old.
func (s *Store) sound(path, sha256 string) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	was, _ := known.Load(path)
	if h, ok := was.(hashed); !ok || !os.SameFile(h.file, info) || h.file.Size() != info.Size() ||
		!h.file.ModTime().Equal(info.ModTime()) || time.Since(h.at) > recent {
		if got, err := hashOf(path); err != nil || got != sha256 {
			return false, s.setAside(path, sha256, got, err)
		}
		was = hashed{at: time.Now()}
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // marks it as used now. If that fails, the dataset itself is fine
	if info, err := os.Stat(path); err == nil {
		h, _ := was.(hashed)
		known.Store(path, hashed{info, h.at})
	}
	return true, nil
}

// hashOf returns the SHA-256 of a file.
func hashOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// setAside renames a damaged dataset.
func (s *Store) setAside(path, sha256, got string, unread error) error {
	aside := filepath.Join(s.dir, damaged+sha256)
	if err := os.Rename(path, aside); err != nil {
		return errors.Join(unread, err)
	}
	slog.Warn("dataset is damaged: it is set aside, and built or sent again", "file", aside, "hash", got, "error", unread)
	return nil
}

// Incoming is a dataset that is being written. It is not safe for concurrent use. The caller commits or discards it.
type Incoming struct {
	store   *Store
	file    *os.File
	sum     hash.Hash
	sha256  string
	size    uint64
	written uint64
}

// Create starts writing a dataset whose hash and size are known in advance.
func (s *Store) Create(sha256 string, size uint64) (*Incoming, error) {
	if _, err := s.file(sha256); err != nil {
		return nil, err
	}
	in, err := s.newIncoming()
	if err != nil {
		return nil, err
	}
	in.sha256, in.size = sha256, size
	return in, nil
}

func (s *Store) newIncoming() (*Incoming, error) {
	f, err := os.CreateTemp(s.dir, incoming+"*")
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	return &Incoming{store: s, file: f, sum: sha256.New()}, nil
}

// Written returns the number of bytes written so far: where an interrupted transfer resumes.
func (in *Incoming) Written() uint64 { return in.written }

// Write writes the next bytes. It refuses more bytes than were announced, so that a sender cannot fill the disk.
func (in *Incoming) Write(p []byte) (int, error) {
	if in.written+uint64(len(p)) > in.size {
		return 0, fmt.Errorf("dataset %s: more than the announced %d bytes", in.sha256, in.size)
	}
	n, err := in.file.Write(p)
	in.sum.Write(p[:n])
	in.written += uint64(n)
	if err != nil {
		return n, fmt.Errorf("dataset %s: %w", in.sha256, err)
	}
	return n, nil
}

// Commit checks size and hash and makes the dataset part of the store. It returns the path. After a successful Commit,
// Discard does nothing.
func (in *Incoming) Commit() (string, error) {
	if got := hex.EncodeToString(in.sum.Sum(nil)); in.written != in.size || got != in.sha256 {
		return "", fmt.Errorf("dataset %s of %d bytes: received %d bytes with hash %s",
			in.sha256, in.size, in.written, got)
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
	if info, err := os.Stat(path); err == nil {
		known.Store(path, hashed{info, time.Now()})
	}
	return path, nil
}

// Discard deletes an incoming dataset that was not committed.
func (in *Incoming) Discard() error {
	if in.file == nil {
		return nil
	}
	name := in.file.Name()
	err := errors.Join(in.file.Close(), os.Remove(name))
	in.file = nil
	if errors.Is(err, os.ErrClosed) {
		return nil // a failed commit had already closed the file
	}
	return err
}

// Build stores a file that build writes, under the hash that build returns. build gets an empty file and must not close
// it.
func (s *Store) Build(build func(f *os.File) (sha256 string, err error)) (path string, err error) {
	in, err := s.newIncoming()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, in.Discard()) }()
	hash, err := build(in.file)
	if err != nil {
		return "", err
	}
	if _, err := in.file.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	n, err := io.Copy(in.sum, in.file) // build need not write in order
	if err != nil {
		return "", err
	}
	in.sha256, in.size, in.written = hash, uint64(n), uint64(n)
	return in.Commit()
}
