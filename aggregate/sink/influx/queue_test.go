package influx

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func open(t interface{ Fatal(...any) }, path string) *spool {
	s, err := openSpool(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestQueueIsInOrder drives a queue, and a plain list of entries as an oracle, with puts, takes, restarts and time.
// Entries arrive and move to the disk while others are in flight.
func TestQueueIsInOrder(t *testing.T) {
	dir := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		path := filepath.Join(dir, fmt.Sprint(runs))
		q := newQueue(rapid.IntRange(0, 40).Draw(t, "limit"), open(t, path))
		var want [][]byte
		next, now := 0, time.Unix(0, 0)
		q.now = func() time.Time { return now }
		put := func(*rapid.T) {
			lines := []byte(fmt.Sprintf("point %d\nand %d\n", next, next))
			next++
			want = append(want, lines)
			q.put(lines)
		}
		meanwhile := map[int]func(*rapid.T){
			0: func(*rapid.T) {}, 1: put, 2: func(t *rapid.T) { now = now.Add(memoryTime); put(t) },
			3: func(*rapid.T) { q.save() },
		}
		t.Repeat(map[string]func(*rapid.T){
			"put":  put,
			"wait": func(*rapid.T) { now = now.Add(memoryTime / 3) },
			"save": func(*rapid.T) { q.save() },
			"take": func(t *rapid.T) {
				entries, bytes := rapid.IntRange(1, 5).Draw(t, "entries"), rapid.IntRange(1, 60).Draw(t, "bytes")
				between := meanwhile[rapid.IntRange(0, 3).Draw(t, "meanwhile")]
				taken := takeSome(t, q, want, entries, bytes, func() { between(t) })
				want = want[taken:]
			},
			"peek in vain": func(t *rapid.T) {
				if _, err := q.peek(3, 1000); err != nil {
					t.Fatal(err)
				}
			},
			"restart": func(t *rapid.T) {
				left, err := q.close()
				if err != nil || left != 2*len(want) {
					t.Fatalf("%d points left, %v; want %d", left, err, 2*len(want))
				}
				q = newQueue(q.limit, open(t, path))
				q.now = func() time.Time { return now }
			},
			"": func(t *rapid.T) {
				if got := q.waiting(); got != 2*len(want) {
					t.Fatalf("%d points waiting, want %d", got, 2*len(want))
				}
				if q.bytes > q.limit {
					t.Fatalf("%d bytes in memory, bound %d", q.bytes, q.limit)
				}
			},
		})
		if _, err := q.close(); err != nil {
			t.Fatal(err)
		}
	})
}

// takeSome takes a batch, compares it with the oracle and returns how many entries it had.
func takeSome(t *rapid.T, q *queue, want [][]byte, mostEntries, mostBytes int, meanwhile func()) int {
	b, err := q.peek(mostEntries, mostBytes)
	if err != nil {
		t.Fatal(err)
	}
	if b.entries == 0 && len(want) > 0 || b.entries > mostEntries || b.entries > 1 && len(b.lines) > mostBytes {
		t.Fatalf("%d entries, %d bytes of %d entries", b.entries, len(b.lines), len(want))
	}
	if b.entries == 0 {
		return 0
	}
	if all := bytes.Join(want[:b.entries], nil); !bytes.Equal(b.lines, all) {
		t.Fatalf("got %q, want %q", b.lines, all)
	}
	meanwhile()
	if err := q.take(b); err != nil {
		t.Fatal(err)
	}
	return b.entries
}

func TestSpoolSurvivesACrash(t *testing.T) {
	whole := []byte("a 1\nb 2\n")
	for _, cut := range []int{1, headerSize - 1, headerSize, headerSize + 1, headerSize + 3} {
		path := filepath.Join(t.TempDir(), "spool")
		s := open(t, path)
		for range 2 {
			if err := s.add(whole); err != nil {
				t.Fatal(err)
			}
		}
		torn := s.end/2 + int64(cut)
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, torn); err != nil {
			t.Fatal(err)
		}
		s = open(t, path)
		if s.left != 2 || s.end != torn-int64(cut) {
			t.Errorf("torn %d bytes into an entry: %d points to offset %d", cut, s.left, s.end)
		}
		b, err := s.peek(10, 1000)
		if err != nil || !bytes.Equal(b.lines, whole) {
			t.Errorf("torn %d bytes into an entry: %q, %v", cut, b.lines, err)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
	}
}

// What has waited for a second is on the disk, so that it is not lost if the process is killed.
func TestWhatWaitsIsOnTheDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	q, now := newQueue(1000, open(t, path)), time.Unix(0, 0)
	q.now = func() time.Time { return now }
	for i := range 5 {
		q.put([]byte(fmt.Sprintf("a %d\n", i)))
		now = now.Add(memoryTime / 2)
	}
	file, err := os.Stat(path)
	if err != nil || file.Size() != 5*(headerSize+4) || q.bytes != 0 || q.waiting() != 5 {
		t.Errorf("%v (%v) is on the disk, %d bytes in memory, %d points wait", file, err, q.bytes, q.waiting())
	}
}

func TestFullDiskIsCounted(t *testing.T) {
	q := newQueue(10, open(t, filepath.Join(t.TempDir(), "no such directory", "spool")))
	q.put([]byte("a 1\n"))
	q.put([]byte("b 2\nc 3\nd 4\n"))
	if q.lost != 3 || q.cause == nil || q.waiting() != 1 {
		t.Errorf("%d lost (%v), %d waiting; want 3 and 1", q.lost, q.cause, q.waiting())
	}
	left, err := q.close()
	if left != 0 || err != nil || q.lost != 4 {
		t.Errorf("after close: %d left (%v), %d lost; want 0 and 4", left, err, q.lost)
	}
}

func TestNoSpoolWithoutNeed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	q := newQueue(10, open(t, path))
	q.put([]byte("a 1\n"))
	b, err := q.peek(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.take(b); err != nil {
		t.Fatal(err)
	}
	if left, err := q.close(); left != 0 || err != nil {
		t.Fatalf("%d left, %v", left, err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("a spool is there: %v", err)
	}
}

// A file with any content can be opened, and all entries that it returns can be read and taken.
func FuzzSpool(f *testing.F) {
	path := filepath.Join(f.TempDir(), "seed")
	s := open(f, path)
	for _, lines := range []string{"a 1\n", "b 2\nc 3\n"} {
		if err := s.add([]byte(lines)); err != nil {
			f.Fatal(err)
		}
	}
	if err := s.close(); err != nil {
		f.Fatal(err)
	}
	seed, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(seed[:len(seed)-1])
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "spool")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, path)
		for !s.empty() {
			b, err := s.peek(2, 1<<20)
			if err != nil || b.entries == 0 {
				t.Fatalf("%d entries, %v", b.entries, err)
			}
			if err := s.take(b); err != nil {
				t.Fatal(err)
			}
		}
		if s.left != 0 {
			t.Fatalf("%d points left of an empty spool", s.left)
		}
		if err := s.remove(); err != nil {
			t.Fatal(err)
		}
	})
}
