package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/internal/filestest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// fuzzedLedger writes a ledger with several stages, agents and pages, and returns its bytes.
func fuzzedLedger(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, err := Create(path, Change{Run: fixture.RunRecord(2)})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 60 {
		s := fixture.SnapshotOf(uint32(n%2), fixture.AgentName(n%3), 1, uint64(n/6+1))
		s.Records = []*spatev1.RequestRecord{{Error: string(make([]byte, 90*n))}}
		_, e := l.Append([]*spatev1.Snapshot{s})
		err = errors.Join(err, e)
		if n%8 == 0 {
			err = errors.Join(err, l.Put(Change{
				Stages:     []*spatev1.StageRecord{fixture.StageRecord(uint32(n%2), 3)},
				Checkpoint: &spatev1.Checkpoint{Begun: uint32(n)},
				Events:     []*spatev1.FollowRunResponse{eventOf(uint64(n + 1))},
				Submission: &spatev1.Submission{Name: "plan"},
			}))
		}
	}
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// contentsOf reads everything in a ledger through the store.
func contentsOf(l *Ledger) (string, error) {
	run, err1 := l.Run()
	submission, err2 := l.Submission()
	checkpoint, err3 := l.Checkpoint()
	stages, err4 := l.Stages()
	var out bytes.Buffer
	add := func(m proto.Message) {
		text, err := deterministic.Marshal(m)
		fmt.Fprintf(&out, "%x %v\n", text, err)
	}
	add(run)
	add(submission)
	add(checkpoint)
	for _, s := range stages {
		add(s)
	}
	err5 := l.Events(0, func(e *spatev1.FollowRunResponse) error { add(e); return nil })
	err := errors.Join(err1, err2, err3, err4, err5)
	for stage := range uint32(3) {
		err = errors.Join(err, l.Measurements(stage, func(s *spatev1.Snapshot) error { add(s); return nil }))
		err = errors.Join(err, l.Rows(stage, func(_ *spatev1.Snapshot, rows [][]byte) error {
			fmt.Fprintf(&out, "%x\n", rows)
			return nil
		}))
		err = errors.Join(err, l.ByWindow(stage, func(s *spatev1.Snapshot) error { add(s); return nil }))
	}
	return out.String(), err
}

// mend makes the checksums of the first two pages right again, as an attacker would.
func mend(data []byte) {
	for _, at := range []int{0, os.Getpagesize()} {
		m := data[at+pageHeader : at+pageHeader+metaLength]
		sum := fnv.New64a()
		sum.Write(m[:metaLength-8])
		native.PutUint64(m[metaLength-8:], sum.Sum64())
	}
}

// Whatever happens to a file, it is opened whole, or it is said to be damaged.
func TestDamages(t *testing.T) {
	whole := fuzzedLedger(t)
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := contentsOf(l)
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	filestest.Each(t, whole, filestest.Pages(whole, os.Getpagesize()), func(damaged []byte, what string) {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if wholeOrTold(t, path, want, false); t.Failed() {
			t.Fatal(what)
		}
	})
}

// A file that becomes shorter while it is open, as on a disk that lost it, is an error of its readers and writers, who
// read mapped memory that is not there any more. It does not end the process, and the ledger can be closed.
func TestAFileThatShrinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	whole := fuzzedLedger(t)
	for pages := 2; pages < len(whole)/os.Getpagesize(); pages += 5 {
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, int64(pages*os.Getpagesize())); err != nil {
			t.Fatal(err)
		}
		_, read := contentsOf(l)
		_, written := l.Append([]*spatev1.Snapshot{fixture.SnapshotOf(0, fixture.AgentName(1), 9, 9)})
		if read == nil && pages < 10 {
			t.Errorf("%d pages: everything was read (written: %v)", pages, written)
		}
		if err := l.Close(); err != nil {
			t.Errorf("%d pages: %v", pages, err)
		}
	}
}

// A disk that fails, at the moment of a write and for what is not in memory, is an error of the write. It does not end
// the process.
func TestADiskThatFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	whole := fuzzedLedger(t)
	readOnly := func(path string, _ int, _ os.FileMode) (*os.File, error) { return os.Open(path) }
	failed := 0
	for pages := 2; pages <= len(whole)/os.Getpagesize(); pages++ {
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := open(path, false, time.Second, readOnly)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, int64(pages*os.Getpagesize())); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			err := l.Put(Change{Run: &spatev1.RunRecord{RunId: "x"}})
			if err == nil {
				t.Errorf("%d pages: no error", pages)
			}
			if errors.Is(err, syscall.EBADF) {
				failed++
			}
		}
		if err := l.Close(); err != nil {
			t.Errorf("%d pages: %v", pages, err)
		}
	}
	if failed < 10 {
		t.Errorf("%d writes failed: in the others, what they need was not there", failed)
	}
}

// FuzzLedger changes bytes of a ledger (three input bytes for the offset and one for the value of each), truncates the
// ledger, and makes the checksums of its first pages right again. The result must be a ledger with everything that was
// written, or an error. What is intact must be distinguishable from the rest.
func FuzzLedger(f *testing.F) {
	whole := fuzzedLedger(f)
	path := filepath.Join(f.TempDir(), "whole.db")
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		f.Fatal(err)
	}
	l, err := OpenReadOnly(path)
	if err != nil {
		f.Fatal(err)
	}
	want, err := contentsOf(l)
	if err := errors.Join(err, l.Close()); err != nil {
		f.Fatal(err)
	}
	at := func(offset int, value byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(offset))[1:], value)
	}
	f.Add([]byte{}, uint32(0), false)
	f.Add(at(4*4096+10, 1), uint32(0), false)
	f.Add(at(pageHeader+16, 5), uint32(0), true)
	f.Add(at(pageHeader+40, 255), uint32(0), true)
	f.Add([]byte{}, uint32(9999), false)
	f.Fuzz(func(t *testing.T, changes []byte, cut uint32, mended bool) {
		data := bytes.Clone(whole)
		for ; len(changes) >= 4; changes = changes[4:] {
			data[int(binary.BigEndian.Uint32(append([]byte{0}, changes[:3]...)))%len(data)] = changes[3]
		}
		if mended {
			mend(data)
		}
		data = data[:len(data)-int(cut)%len(data)]
		path := filepath.Join(t.TempDir(), "ledger.db")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		wholeOrTold(t, path, want, mended)
	})
}

// wholeOrTold opens a ledger in every way. If forged, the first pages may point to an earlier state of the file.
func wholeOrTold(t *testing.T, path, want string, forged bool) {
	t.Helper()
	_ = Peek(path, func(l *Ledger) error {
		_, err := l.Run()
		return errors.Join(err, l.Events(0, func(*spatev1.FollowRunResponse) error { return nil }))
	})
	l, err := OpenReadOnly(path)
	switch {
	case err == nil:
		got, err := contentsOf(l)
		if err := errors.Join(err, l.Close()); err != nil || got != want && !forged {
			t.Errorf("it opens, with other content: error %v", err)
		}
	case !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrForeign):
		t.Errorf("error %v", err)
	}
}
