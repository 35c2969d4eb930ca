package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/files"
)

// head begins each line of the file.
type head struct {
	// Number is that of the line, from 1 on, so that a line that is missing or repeated is noticed.
	Number int64  `json:"number"`
	Run    string `json:"run"`
	// Plan and Time of the run: records are in their order.
	Plan string    `json:"plan,omitempty"`
	Time time.Time `json:"time,omitzero"`
}

// entry is where the last line about a run is.
type entry struct {
	head
	at, length int64
	none       bool // the run has nothing to record, or was removed
}

// byTime orders the entries of a plan.
func byTime(a, b *entry) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Run, b.Run)) }

// sumLength is the length of the checksum before a line's head and record, in hexadecimal digits, and of the space
// behind it.
const sumLength = 9

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// lineOf returns a line of the file: checksum, head, and the record as JSON, or null.
func lineOf(h head, record []byte) []byte {
	start, _ := json.Marshal(h) // a head has nothing that JSON cannot hold
	text := slices.Concat(start, []byte{' '}, record)
	return slices.Concat(sumOf(text), text, []byte{'\n'})
}

// sumOf returns what stands before a text in its line.
func sumOf(text []byte) []byte { return fmt.Appendf(nil, "%08x ", crc32.Checksum(text, castagnoli)) }

// parse reads a line. ok: it is as it was written.
func parse(line []byte) (h head, record []byte, ok bool) {
	if len(line) < sumLength+1 || line[len(line)-1] != '\n' {
		return h, nil, false
	}
	text := line[sumLength : len(line)-1]
	if !bytes.HasPrefix(line, sumOf(text)) {
		return h, nil, false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&h); err != nil || d.InputOffset() >= int64(len(text)) {
		return h, nil, false
	}
	return h, text[d.InputOffset()+1:], true
}

// load reads the whole file, and returns what is wrong with it, or "".
func (s *Store) load(f *os.File) (wrong string) {
	s.file, s.end, s.live, s.number = f, 0, 0, 0
	s.runs, s.plans, s.read = map[string]*entry{}, map[string][]*entry{}, map[string]*compare.Record{}
	lines, bad := int64(0), int64(0)
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	r := bufio.NewReaderSize(io.LimitReader(f, 4*mostLive), int(min(info.Size()+1, maxLine)))
	for {
		line, err := r.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return err.Error()
		}
		if h, record, ok := parse(line); ok && h.Number > s.number {
			s.add(&entry{head: h, at: s.end, length: int64(len(line)), none: string(record) == "null"})
			s.number = h.Number
			lines++
		} else if len(line) > 0 {
			bad++
		}
		s.end += int64(len(line))
		if errors.Is(err, io.EOF) {
			break
		}
	}
	if missing := s.number - lines; bad > 0 || missing > 0 {
		wrong = fmt.Sprintf("%d of its lines are damaged, repeated or missing", max(bad, missing))
	}
	return wrong
}

// add takes a line that is in the file in place of an earlier one about the same run.
func (s *Store) add(e *entry) {
	s.drop(e.Run)
	s.runs[e.Run] = e
	s.live += e.length
	if !e.none {
		at, _ := slices.BinarySearchFunc(s.plans[e.Plan], e, byTime)
		s.plans[e.Plan] = slices.Insert(s.plans[e.Plan], at, e)
	}
}

// drop forgets the line about a run.
func (s *Store) drop(run string) {
	e := s.runs[run]
	if e == nil {
		return
	}
	delete(s.runs, run)
	delete(s.read, run)
	s.live -= e.length
	s.plans[e.Plan] = slices.DeleteFunc(s.plans[e.Plan], func(other *entry) bool { return other == e })
	if len(s.plans[e.Plan]) == 0 {
		delete(s.plans, e.Plan)
	}
}

// text returns the record of a line as JSON.
func (s *Store) text(e *entry) ([]byte, error) {
	line := make([]byte, e.length)
	if _, err := s.file.ReadAt(line, e.at); err != nil {
		return nil, err
	}
	h, record, ok := parse(line)
	if !ok || h.Run != e.Run {
		return nil, fmt.Errorf("line %d has changed since it was written", e.Number)
	}
	return record, nil
}

// write appends a line to the file, durably. If that fails, the file is as before.
func (s *Store) write(h head, record []byte) error {
	h.Number = s.number + 1
	line := lineOf(h, record)
	if len(line) > maxLine {
		return fmt.Errorf("its record has %d bytes: at most %d are kept", len(line), maxLine)
	}
	_, err := s.file.WriteAt(line, s.end)
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		_ = s.file.Truncate(s.end) // else the next line is written over what is there
		return err
	}
	s.add(&entry{head: h, at: s.end, length: int64(len(line)), none: string(record) == "null"})
	s.number, s.end = h.Number, s.end+int64(len(line))
	if s.live > mostLive || s.end > 2*s.live+slack {
		return s.compact()
	}
	return nil
}

// compact writes the file again with the last line about each run, without the oldest records beyond three quarters of
// the limit, and loads it.
func (s *Store) compact() error {
	entries := slices.SortedFunc(maps.Values(s.runs), func(a, b *entry) int { return cmp.Compare(a.Number, b.Number) })
	beyond, removed, number := int64(0), 0, int64(0)
	if s.live > mostLive {
		beyond = s.live - mostLive/4*3
	}
	err := files.ReplaceBy(s.path, func(w io.Writer) error {
		for _, e := range entries {
			record, err := s.text(e)
			if err != nil {
				s.lost(e, err)
				continue
			}
			if beyond > 0 && !e.none {
				record, beyond, removed = []byte("null"), beyond-e.length, removed+1
			}
			h := e.head
			number++
			h.Number = number
			if _, err := w.Write(lineOf(h, record)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(s.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if removed > 0 {
		s.log.Warn("history is full: its oldest records are removed", "removed", removed, "limit_bytes", mostLive)
	}
	_ = s.file.Close() // of a file that was only read since its last Sync
	if wrong := s.load(f); wrong != "" {
		s.log.Error("history is damaged right after it was written: the disk is at fault", "file", s.path, "error", wrong)
	}
	return nil
}

// lost forgets a record that cannot be read any more. If its run is still there, it is recorded again.
func (s *Store) lost(e *entry, err error) {
	s.log.Error("a record of the history cannot be read: it is recorded again if its run is still there", "run", e.Run,
		"error", err)
	s.drop(e.Run)
}
