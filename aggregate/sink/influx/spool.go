package influx

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// headerSize is the size of the header before each entry in a spool: the entry's length and its CRC-32C, both
// little-endian uint32.
const headerSize = 8

// largestEntry is the largest length that is valid when a spool is read. No single call comes near it.
const largestEntry = 64 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errTorn means that the rest of a spool cannot be read because its writer died in the middle of an entry.
var errTorn = errors.New("the spool ends in the middle of an entry")

// spool is a queue in a file: entries are added at the end and taken from the head. The head is not stored on disk:
// after a crash, everything in the file is sent again, and InfluxDB takes it as the same points. A spool is not safe
// for concurrent use.
type spool struct {
	path string
	file *os.File // nil until the first entry
	head int64    // offset of the oldest entry
	end  int64    // offset after the newest entry
	left int      // points between head and end
}

// openSpool opens the spool that an earlier process left, if there is one. It truncates an entry that a crash left
// incomplete.
func openSpool(path string) (*spool, error) {
	s := &spool{path: path}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	if err := claim(file); err != nil {
		return nil, errors.Join(fmt.Errorf("open spool %s: %w", path, err), file.Close())
	}
	s.file = file
	if err := s.scan(); err != nil {
		return nil, errors.Join(fmt.Errorf("read spool %s: %w", path, err), file.Close())
	}
	return s, nil
}

// scan counts the entries and points in the file.
func (s *spool) scan() error {
	reader := bufio.NewReaderSize(s.file, 1<<20)
	for {
		lines, err := readEntry(reader)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, errTorn) {
			return s.file.Truncate(s.end)
		}
		if err != nil {
			return err
		}
		s.end += headerSize + int64(len(lines))
		s.left += points(lines)
	}
}

// empty reports whether everything was taken.
func (s *spool) empty() bool { return s.head == s.end }

// add appends an entry. After an error, the next entry overwrites what was written of this one.
func (s *spool) add(lines []byte) error {
	if s.file == nil {
		file, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
		if err != nil {
			return fmt.Errorf("create spool: %w", err)
		}
		if err := claim(file); err != nil {
			return errors.Join(fmt.Errorf("create spool: %w", err), file.Close())
		}
		s.file = file
	}
	entry := make([]byte, headerSize, headerSize+len(lines))
	binary.LittleEndian.PutUint32(entry, uint32(len(lines)))
	binary.LittleEndian.PutUint32(entry[4:], crc32.Checksum(lines, castagnoli))
	entry = append(entry, lines...)
	if _, err := s.file.WriteAt(entry, s.end); err != nil {
		return fmt.Errorf("write spool: %w", err)
	}
	s.end += int64(len(entry))
	s.left += points(lines)
	return nil
}

// peek reads entries from the head: at least one, at most mostEntries, and at most mostBytes if there are several.
func (s *spool) peek(mostEntries, mostBytes int) (batch, error) {
	var b batch
	reader := bufio.NewReader(io.NewSectionReader(s.file, s.head, s.end-s.head))
	for offset := s.head; offset < s.end && b.entries < mostEntries; {
		lines, err := readEntry(reader)
		if err != nil {
			return b, fmt.Errorf("read spool %s at %d: %w", s.path, offset, err)
		}
		if b.entries > 0 && len(b.lines)+len(lines) > mostBytes {
			break
		}
		b.add(lines)
		offset += headerSize + int64(len(lines))
		b.behind = offset
	}
	return b, nil
}

// take removes what peek read. If the spool is empty then, take frees its disk space.
func (s *spool) take(b batch) error {
	s.head = b.behind
	s.left -= b.points
	if !s.empty() {
		return nil
	}
	s.head, s.end, s.left = 0, 0, 0
	if err := s.file.Truncate(0); err != nil {
		return fmt.Errorf("empty spool: %w", err)
	}
	return nil
}

// forget drops all entries of a spool from which nothing was taken yet. Later entries overwrite what may be left of
// them in the file.
func (s *spool) forget() {
	s.head, s.end, s.left = 0, 0, 0
	if s.file != nil {
		_ = s.file.Truncate(0) // if this fails, a restart sends them once more, as the same points
	}
}

// prepend inserts entries before the head and discards what was taken. It writes a new file and renames it, so that the
// file is replaced as a whole or not at all.
func (s *spool) prepend(entries [][]byte) error {
	if len(entries) == 0 && s.head == 0 {
		return nil
	}
	next := &spool{path: s.path + ".new"}
	for _, lines := range entries {
		if err := next.add(lines); err != nil {
			return errors.Join(err, next.close())
		}
	}
	if err := s.copyTo(next); err != nil {
		return errors.Join(err, next.close())
	}
	if err := os.Rename(next.path, s.path); err != nil {
		return errors.Join(err, next.close())
	}
	next.path = s.path
	err := s.close()
	*s = *next
	return err
}

// copyTo moves the remaining entries to another spool.
func (s *spool) copyTo(other *spool) error {
	for !s.empty() {
		b, err := s.peek(1, 0)
		if err != nil {
			return err
		}
		if err := other.add(b.lines); err != nil {
			return err
		}
		s.head = b.behind
	}
	return nil
}

// remove deletes the file of an empty spool.
func (s *spool) remove() error {
	if s.file == nil {
		return nil
	}
	return errors.Join(s.close(), os.Remove(s.path))
}

func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// readEntry reads an entry. It returns io.EOF at the end, and errTorn if no complete entry follows.
func readEntry(r io.Reader) ([]byte, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errTorn
		}
		return nil, err
	}
	length := binary.LittleEndian.Uint32(header[:])
	if length == 0 || length > largestEntry {
		return nil, errTorn
	}
	lines := make([]byte, length)
	if _, err := io.ReadFull(r, lines); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return nil, errTorn
		}
		return nil, err
	}
	if crc32.Checksum(lines, castagnoli) != binary.LittleEndian.Uint32(header[4:]) {
		return nil, errTorn
	}
	return lines, nil
}
