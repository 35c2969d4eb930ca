package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// Layout of the store's file, bbolt's format version 2. A page has a header of 16 bytes (number u64, flags u16, count
// u16, overflow u32), then elements. The first two pages are meta pages: they point to the root of all trees and have a
// checksum. Numbers are in the machine's own byte order.
const (
	pageHeader  = 16
	metaLength  = 64
	metaMagic   = 0xED0CDAED
	branchFlag  = 0x01
	leafFlag    = 0x02
	elementSize = 16
	bucketFlag  = 0x01 // flag of a leaf's element: its value is a bucket
	bucketSize  = 16   // root page u64, sequence u64; root 0: the value itself contains a page
)

// deepestTree is more levels than any tree of the store has, because each page has dozens of children.
const deepestTree = 64

var native = binary.NativeEndian

// walk reads a ledger's file page by page, without the store. The store trusts its pages: a page that points to itself
// crashes the process, and a page without its elements loses records silently. A walk continues after a damaged page,
// and lists what is wrong.
type walk struct {
	file   io.ReaderAt
	length int64  // of the file
	size   int64  // of a page
	end    uint64 // number of the first page after the file's trees
	root   uint64 // root page of the tree of buckets
	seen   []uint64
	faults []string
	more   int // number of faults that are not listed

	wanted  func(bucket string) bool
	record  func(bucket string, key, value []byte) // the bytes are valid until it returns
	buckets map[string]uint64                      // sequences of the buckets found, by name
	bucket  string                                 // the bucket being walked; empty: the tree of buckets
}

// mostFaults is the largest number of faults of pages that are listed.
const mostFaults = 8

// newWalk finds the root of a file's trees. It returns an error if both meta pages are unusable, so that nothing else
// can be found.
func newWalk(f *os.File) (*walk, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	w := &walk{file: f, length: info.Size(), buckets: map[string]uint64{}}
	if err := w.metas(); err != nil {
		return nil, err
	}
	if w.length < int64(w.end)*w.size {
		w.fault("the file ends after %d of its %d bytes, as one that was not copied whole", w.length,
			int64(w.end)*w.size)
	}
	w.seen = make([]uint64, min(w.end, uint64(w.length/w.size))/64+1)
	return w, nil
}

// errNoStore is wrapped by the error about a file whose first two pages are not meta pages of the store.
var errNoStore = errors.New("its first pages cannot be read")

// metas reads the newer of the two meta pages. Each change of the file writes one of them. If one is damaged, it is not
// known whether that was the newer one.
func (w *walk) metas() error {
	var newest uint64
	whole := 0
	head := make([]byte, pageHeader+metaLength)
	for _, at := range []int64{0, w.secondMeta()} {
		if _, err := w.file.ReadAt(head, at); err != nil || !soundMeta(head[pageHeader:]) {
			continue
		}
		m := head[pageHeader:]
		if txid := native.Uint64(m[48:]); whole == 0 || txid > newest {
			newest, w.root = txid, native.Uint64(m[16:])
			w.size, w.end = int64(native.Uint32(m[8:])), native.Uint64(m[40:])
		}
		whole++
	}
	if whole == 0 || w.size < pageHeader+metaLength || w.size > 1<<24 || w.end > uint64(1)<<40 {
		return errNoStore
	}
	if whole == 1 {
		w.fault("one of its first two pages cannot be read: the last change may be missing")
	}
	return nil
}

// soundMeta reports whether the checksum of a meta page is right.
func soundMeta(m []byte) bool {
	sum := fnv.New64a()
	sum.Write(m[:metaLength-8]) // a hash never returns an error
	return native.Uint32(m) == metaMagic && sum.Sum64() == native.Uint64(m[metaLength-8:])
}

// secondMeta returns the offset of the second meta page. It uses the page size in the first meta page, or this
// machine's if that page is damaged.
func (w *walk) secondMeta() int64 {
	head := make([]byte, pageHeader+metaLength)
	if _, err := w.file.ReadAt(head, 0); err == nil && soundMeta(head[pageHeader:]) {
		return int64(native.Uint32(head[pageHeader+8:]))
	}
	return int64(os.Getpagesize())
}

// fault records what is wrong with a page.
func (w *walk) fault(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if w.bucket != "" {
		text += " (of its " + kinds[w.bucket] + ")"
	}
	if len(w.faults) == mostFaults {
		w.more++
		return
	}
	w.faults = append(w.faults, text)
}

// all walks the wanted buckets and passes their records to record.
func (w *walk) all() { w.tree(w.root, nil, nil, 0) }

// tree walks a page and those below it. Its first key must be from, unless from is nil, and all its keys must be below
// to, unless to is nil.
func (w *walk) tree(id uint64, from, to []byte, depth int) {
	page, ok := w.read(id)
	if !ok {
		return
	}
	if depth == deepestTree {
		w.fault("page %d is too deep in the tree", id)
		return
	}
	elements, err := elementsOf(page)
	if err != nil {
		w.fault("page %d: %v", id, err)
	}
	if from != nil && (len(elements) == 0 || !bytes.Equal(elements[0].key, from)) {
		w.fault("page %d starts with another key than its parent page has", id)
	}
	for i, e := range elements {
		next := to
		if i+1 < len(elements) {
			next = elements[i+1].key
		}
		if next != nil && bytes.Compare(e.key, next) >= 0 {
			w.fault("page %d: keys out of order", id)
		}
		w.below(id, e, next, depth)
	}
}

// below walks what an element contains or points to.
func (w *walk) below(id uint64, e element, next []byte, depth int) {
	switch {
	case e.child != 0:
		w.tree(e.child, e.key, next, depth+1)
	case w.bucket == "":
		w.open(id, e)
	case e.bucket:
		w.fault("page %d: a bucket inside a bucket", id)
	default:
		w.record(w.bucket, e.key, e.value)
	}
}

// open walks a bucket.
func (w *walk) open(id uint64, e element) {
	if !e.bucket || len(e.value) < bucketSize {
		w.fault("page %d: not a part of a ledger", id)
		return
	}
	name := string(e.key)
	w.buckets[name] = native.Uint64(e.value[8:])
	if kinds[name] == "" {
		w.fault("page %d: a part that no ledger has", id)
		return
	}
	if !w.wanted(name) {
		return
	}
	w.bucket = name
	defer func() { w.bucket = "" }()
	if root := native.Uint64(e.value); root != 0 {
		w.tree(root, nil, nil, 0)
		return
	}
	inline, err := elementsOf(e.value[bucketSize:])
	if err != nil {
		w.fault("page %d: %v", id, err)
	}
	for i, e := range inline {
		if e.child != 0 || e.bucket || i > 0 && bytes.Compare(inline[i-1].key, e.key) >= 0 {
			w.fault("page %d: keys out of order", id)
			continue
		}
		w.record(name, e.key, e.value)
	}
}

// read reads a page with its overflow pages. It returns false if that fails, or if the page was read before: a page
// belongs to only one place in the trees.
func (w *walk) read(id uint64) ([]byte, bool) {
	head := make([]byte, pageHeader)
	if id < 2 || id >= w.end {
		w.fault("page %d is not one of %d", id, w.end)
		return nil, false
	}
	if _, err := w.file.ReadAt(head, int64(id)*w.size); err != nil {
		w.fault("page %d is not there", id)
		return nil, false
	}
	overflow := uint64(native.Uint32(head[12:]))
	if native.Uint64(head) != id || id+overflow >= w.end || int64(id+overflow+1)*w.size > w.length {
		w.fault("page %d says that it is page %d with %d more", id, native.Uint64(head), overflow)
		return nil, false
	}
	for n := id; n <= id+overflow; n++ {
		if w.seen[n/64]>>(n%64)&1 == 1 {
			w.fault("page %d is there twice", n)
			return nil, false
		}
		w.seen[n/64] |= 1 << (n % 64)
	}
	page := make([]byte, int64(1+overflow)*w.size)
	if _, err := w.file.ReadAt(page, int64(id)*w.size); err != nil {
		w.fault("page %d: %v", id, err)
		return nil, false
	}
	return page, true
}

// element is one entry of a page.
type element struct {
	key, value []byte
	bucket     bool   // value is a bucket
	child      uint64 // page below; 0: the page is a leaf
}

// elementsOf reads the elements of a page: branch (position u32, key size u32, page u64) or leaf (flags, position, key
// size, value size u32). Positions count from the element itself. On an error it also returns the elements
// before it.
func elementsOf(page []byte) (out []element, err error) {
	if len(page) < pageHeader {
		return nil, fmt.Errorf("%d bytes", len(page))
	}
	flags, count := native.Uint16(page[8:]), int(native.Uint16(page[10:]))
	if flags != branchFlag && flags != leafFlag || flags == branchFlag && count == 0 {
		return nil, fmt.Errorf("kind %#x with %d elements", flags, count)
	}
	if count > (len(page)-pageHeader)/elementSize {
		return nil, fmt.Errorf("%d elements in %d bytes", count, len(page))
	}
	for i := range count {
		e, ok := elementOf(page, pageHeader+i*elementSize, flags)
		if !ok {
			return out, fmt.Errorf("element %d cannot be read", i)
		}
		out = append(out, e)
	}
	return out, nil
}

// elementOf reads the element at an offset of a page. It returns false if the element points outside the page or is
// invalid.
func elementOf(page []byte, at int, flags uint16) (out element, ok bool) {
	e := page[at:]
	position, keySize, valueSize := uint64(native.Uint32(e)), uint64(native.Uint32(e[4:])), uint64(0)
	if flags == leafFlag {
		position, keySize, valueSize = keySize, uint64(native.Uint32(e[8:])), uint64(native.Uint32(e[12:]))
		out.bucket = native.Uint32(e)&bucketFlag != 0
	} else if out.child = native.Uint64(e[8:]); out.child == 0 {
		return out, false
	}
	start := uint64(at) + position
	if start+keySize+valueSize > uint64(len(page)) || keySize == 0 {
		return out, false
	}
	out.key, out.value = page[start:start+keySize], page[start+keySize:start+keySize+valueSize]
	return out, true
}
