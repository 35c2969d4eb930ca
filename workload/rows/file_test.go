package rows

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// rowsDrawn draws a row of any kind.
var rowsDrawn = rapid.Custom(func(t *rapid.T) Row {
	text := rapid.SliceOfN(rapid.Byte(), 0, 40)
	r := Row{
		At: time.Duration(rapid.Int64Min(0).Draw(t, "at")), ISL: rapid.Uint32().Draw(t, "isl"),
		OSL:    rapid.Uint32().Draw(t, "osl"),
		Shared: rapid.Uint32().Draw(t, "shared"), Kind: Kind(rapid.IntRange(0, int(kinds)-1).Draw(t, "kind")),
		TurnCount: 1,
	}
	switch r.Kind {
	case Text:
		r.Content = text.Draw(t, "text")
	case Messages:
		r.Content = text.Draw(t, "messages")
		r.Insert = rapid.IntRange(0, len(r.Content)).Draw(t, "insert")
	case MessagesWithFields:
		r.Content, r.Fields = text.Draw(t, "messages"), text.Draw(t, "fields")
		r.Insert = rapid.IntRange(0, len(r.Content)).Draw(t, "insert")
	case TokenIDs:
		r.IDs = rapid.SliceOfN(rapid.Uint32(), 0, 20).Draw(t, "ids")
	case Blocks:
		r.Blocks = rapid.SliceOfN(rapid.Uint64(), 0, 20).Draw(t, "blocks")
	case Session, Texts, Documents:
		r.Content = text.Draw(t, "system")
		for range rapid.IntRange(1, 4).Draw(t, "turns") {
			r.Turns = append(r.Turns, Turn{ISL: rapid.Uint32().Draw(t, "i"), OSL: rapid.Uint32().Draw(t, "o"),
				User: text.Draw(t, "u"), Answer: text.Draw(t, "a")})
		}
		r.TurnCount = uint32(len(r.Turns))
	case Steps:
		r.Steps, _ = stepsDrawn(t)
		r.TurnCount = uint32(len(r.Steps))
	}
	return r
})

// written writes rows unchanged.
func written(t rapid.TB, rows []Row, size uint32) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, Header{Form: 6, RecordSize: size, BlockTokens: 512})
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if err := w.Add(&rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	_, n, err := w.Close(HasTimes)
	if err != nil || n != uint64(out.Len()) {
		t.Fatalf("%d bytes of %d: %v", n, out.Len(), err)
	}
	return out.Bytes()
}

// TestRoundTrip: rows that were written are read back, in any order, into a reused row.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rowsDrawn, 1, 20).Draw(t, "rows")
		b := written(t, want, LongRecord)
		r, err := New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		var got, head Row
		for range 2 * len(want) {
			i := rapid.IntRange(0, len(want)-1).Draw(t, "i")
			if err := errors.Join(r.Read(uint64(i), &got), r.ReadMetadata(uint64(i), &head)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want[i], got, cmpopts.IgnoreUnexported(Row{}, Step{}), cmpopts.EquateEmpty()); diff != "" {
				t.Fatal(diff)
			}
			if head.At != want[i].At || head.ISL != want[i].ISL || head.OSL != want[i].OSL ||
				head.Shared != want[i].Shared || head.TurnCount != want[i].TurnCount {
				t.Fatalf("head %+v, want %+v", head, want[i])
			}
		}
		if err := r.Read(uint64(len(want)), &got); err == nil {
			t.Fatal("read a row behind the last")
		}
	})
}

// TestChunks: rows on both sides of each chunk boundary, and short records.
func TestChunks(t *testing.T) {
	for _, n := range []int{1, chunkRows - 1, chunkRows, chunkRows + 1, 3 * chunkRows} {
		for _, size := range []uint32{ShortRecord, LongRecord} {
			rows := make([]Row, n)
			for i := range rows {
				rows[i] = Row{At: time.Duration(i), ISL: uint32(i), OSL: 1}
			}
			b := written(t, rows, size)
			r, err := New(bytes.NewReader(b), int64(len(b)))
			if err != nil || r.Len() != uint64(n) {
				t.Fatalf("%d rows: %v", n, err)
			}
			var row Row
			for i := range n {
				if err := r.Read(uint64(i), &row); err != nil || row.ISL != uint32(i) {
					t.Fatalf("row %d is %+v: %v", i, row, err)
				}
			}
		}
	}
}

// TestDamage flips each byte of a file, and truncates it everywhere. Open refuses it, or no row is read wrong.
func TestDamage(t *testing.T) {
	want := []Row{
		{At: 1, ISL: 5, OSL: 6, Kind: Text, Content: []byte("hello")},
		{At: 2, ISL: 7, OSL: 8, Kind: Blocks, Blocks: []uint64{1, 2, 1 << 60}},
		{OSL: 1, Kind: Session, TurnCount: 1, Turns: []Turn{{OSL: 1, User: []byte("u")}}},
	}
	good := written(t, want, LongRecord)
	check := func(what string, b []byte) {
		r, err := New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		var row Row
		for i := range want {
			if err := r.Read(uint64(i), &row); err != nil {
				if !errors.Is(err, ErrDamaged) {
					t.Fatalf("%s: row %d: %v is not ErrDamaged", what, i, err)
				}
				return
			}
		}
		t.Errorf("%s is not noticed", what)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		check("a turned bit", bad)
		check("a cut", good[:i])
	}
	check("a byte more", append(bytes.Clone(good), 0))
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := string(written(t, []Row{{OSL: 1}}, LongRecord))
	for name, path := range map[string]string{
		"no such": filepath.Join(dir, "none"), "directory": dir, "empty": put("e", ""),
		"foreign": put("f", strings.Repeat("foreign", 99)),
		"newer":   put("n", good[:8]+"\x09"+good[9:]), "cut": put("c", good[:len(good)-1]),
	} {
		if r, err := Open(path); err == nil {
			t.Errorf("%s: %d rows", name, r.Len())
		} else if !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("%s: %v does not name the file", name, err)
		}
	}
	r, err := Open(put("g", good))
	if err != nil || r.Len() != 1 || r.Has(Text) || !r.Has(Lengths) {
		t.Fatalf("%+v %v", r, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// blockRows returns an open file of n rows of blocks, 1 ms apart.
func blockRows(t testing.TB, n int) (*File, []Row) {
	t.Helper()
	rows := make([]Row, n)
	for i := range rows {
		rows[i] = Row{At: time.Duration(i) * time.Millisecond, ISL: 1024, OSL: 1, Kind: Blocks,
			Blocks: []uint64{0, uint64(i)}, TurnCount: 1}
	}
	b := written(t, rows, LongRecord)
	r, err := New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return r, rows
}

// TestConcurrentReads reads one file from several goroutines.
func TestConcurrentReads(t *testing.T) {
	r, want := blockRows(t, 1000)
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			var row Row
			for k := range 500 {
				i := (k*7 + g*131) % len(want)
				if err := r.Read(uint64(i), &row); err != nil || !cmp.Equal(row.Blocks, want[i].Blocks) {
					t.Errorf("row %d: %v", i, err)
				}
				if at, _ := r.At(uint64(i)); at != want[i].At {
					t.Errorf("row %d at %v", i, at)
				}
			}
		})
	}
	group.Wait()
}

// TestReadDoesNotAllocate reads into a reused row.
func TestReadDoesNotAllocate(t *testing.T) {
	r, _ := blockRows(t, 1000)
	var row Row
	rowsInto := func() {
		for i := range r.Len() {
			if err := r.Read(i, &row); err != nil {
				t.Fatal(err)
			}
		}
	}
	rowsInto()
	if n := testing.AllocsPerRun(3, rowsInto); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
