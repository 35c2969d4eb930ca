package report

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/report/requests"
)

// damaged is a run directory whose ledger is damaged again and again.
type damaged struct {
	dir   string
	whole []byte            // the ledger as it was written
	files map[string]string // the files made from it
	told  int               // number of changes that were reported
	tried int
}

// damagedRun creates a run directory to damage.
func damagedRun(t testing.TB) *damaged {
	t.Helper()
	dir := runDir(t, requests.JSONL, inOrder)
	whole, err := os.ReadFile(filepath.Join(dir, ledger.File))
	if err != nil {
		t.Fatal(err)
	}
	return &damaged{dir: dir, whole: whole, files: written(t, dir)}
}

// filesAt makes all files of the ledger at a path, in memory.
func filesAt(path string) (map[string]string, error) {
	l, err := ledger.OpenReadOnly(path)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	var rows []file
	_, _, list, err := filesOf(l, Options{}, func(f file) error { rows = append(rows, f); return nil })
	out := map[string]string{}
	for _, f := range append(list, rows...) {
		var text bytes.Buffer
		err = errors.Join(err, f.write(&text))
		out[f.name] = text.String()
	}
	return out, err
}

// try makes all files of a changed ledger. The change must either be reported as damage or change no byte of any file.
func (d *damaged) try(t testing.TB, what string, data []byte) {
	t.Helper()
	d.tried++
	if err := os.WriteFile(filepath.Join(d.dir, ledger.File), data, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := filesAt(filepath.Join(d.dir, ledger.File))
	if err == nil {
		if !maps.Equal(got, d.files) {
			t.Errorf("%s: other files, and no word of it", what)
		}
		return
	}
	d.told++
	if d.told%20 == 1 {
		t.Logf("%s: %v", what, err)
	}
	if !errors.Is(err, ledger.ErrDamaged) && !errors.Is(err, ledger.ErrForeign) {
		t.Errorf("%s: error %v", what, err)
	}
}

// flip changes one bit.
func flip(data []byte, bit int) []byte {
	out := append([]byte(nil), data...)
	out[bit/8] ^= 1 << (bit % 8)
	return out
}

// Before ledgers had checksums, 119 of 250 flipped bits changed rows without an error, and 7 of 200 changed
// results.json.
func TestEachFlippedBitIsHarmlessOrTold(t *testing.T) {
	t.Parallel()
	d := damagedRun(t)
	random := rand.New(rand.NewPCG(13, 250)) // the same bits each time
	for range 100 {
		bit := random.IntN(8 * len(d.whole))
		d.try(t, "bit", flip(d.whole, bit))
	}
	t.Logf("anywhere: %d of %d told, the others harmless", d.told, d.tried)
	page := os.Getpagesize()
	for range 60 { // in the headers of pages
		bit := 8*page*random.IntN(len(d.whole)/page) + random.IntN(8*64)
		d.try(t, "bit of a page's head", flip(d.whole, bit))
	}
	t.Logf("with heads of pages: %d of %d told", d.told, d.tried)
	if d.told < 30 {
		t.Errorf("%d of %d told: the bits are not where the ledger is", d.told, d.tried)
	}
}

func TestEachCutLedgerIsHarmlessOrTold(t *testing.T) {
	t.Parallel()
	d := damagedRun(t)
	random := rand.New(rand.NewPCG(13, 200))
	for range 60 {
		d.try(t, "cut", d.whole[:random.IntN(len(d.whole))])
	}
	t.Logf("%d of %d told, the others harmless", d.told, d.tried)
}

// A page that points to itself once ended the process with a stack overflow.
func TestPagesThatPointAtThemselvesAreTold(t *testing.T) {
	t.Parallel()
	d := damagedRun(t)
	page, native := os.Getpagesize(), binary.NativeEndian
	for at := 2 * page; at < len(d.whole); at += page {
		data := append([]byte(nil), d.whole...)
		head := data[at:]
		native.PutUint64(head, uint64(at/page))
		native.PutUint16(head[8:], 1)  // a branch
		native.PutUint16(head[10:], 1) // of one element
		native.PutUint32(head[12:], 0)
		native.PutUint32(head[16:], 16) // its key is after it
		native.PutUint32(head[20:], 4)
		native.PutUint64(head[24:], uint64(at/page))
		d.try(t, "page that points at itself", data)
	}
	if d.told == 0 {
		t.Error("none was told")
	}
}
