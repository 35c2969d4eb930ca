package aggregate

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// Layout of the store's file, bbolt's format version 2: pages with a header of 16 bytes (number u64, flags u16, count u16, overflow u32),
// then elements; the first two pages hold what the whole file hangs on, with a checksum. Numbers are in the machine's own byte order.
const (
	pageHeader  = 16
	metaLength  = 64
	metaMagic   = 0xED0CDAED
	branchFlag  = 0x01
	leafFlag    = 0x02
	elementSize = 16
	bucketFlag  = 0x01 // of a leaf's element: its value is a bucket
	bucketSize  = 16   // root page u64, sequence u64; root 0: a page follows in the value itself
)

var native = binary.NativeEndian

// pageCheck walks all pages of a file. The store itself trusts them: with a damaged one it ends the process when it looks for free pages,
// in goroutines of its own, so that a file has to be known to be sound before it is opened to be written to.
type pageCheck struct {
	file io.ReaderAt
	size int64  // of a page
	end  uint64 // first page beyond the file's tree
	seen map[uint64]bool
}

// sound returns why a file cannot be opened to be written to, nil if it can. It reads all of it.
func sound(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	c := &pageCheck{file: f, seen: map[uint64]bool{}}
	root, err := c.meta()
	if err != nil {
		return err
	}
	return c.tree(root, nil, nil)
}

// meta finds the newest whole meta page and returns the root of the tree.
func (c *pageCheck) meta() (root uint64, err error) {
	var newest uint64
	head := make([]byte, pageHeader+metaLength)
	for _, at := range []int64{0, c.secondMeta()} {
		if _, err := c.file.ReadAt(head, at); err != nil {
			continue // too short: the other one may be whole
		}
		m := head[pageHeader:]
		sum := fnv.New64a()
		sum.Write(m[:metaLength-8]) // never fails, by its contract
		if native.Uint32(m) != metaMagic || sum.Sum64() != native.Uint64(m[metaLength-8:]) {
			continue
		}
		if txid := native.Uint64(m[48:]); c.size == 0 || txid > newest {
			newest, root = txid, native.Uint64(m[16:])
			c.size, c.end = int64(native.Uint32(m[8:])), native.Uint64(m[40:])
		}
	}
	if c.size < pageHeader+metaLength {
		return 0, fmt.Errorf("%w: its first pages cannot be read", ErrDamaged)
	}
	return root, nil
}

// secondMeta is where the second meta page stands, by the page size that the first one says, or this machine's.
func (c *pageCheck) secondMeta() int64 {
	head := make([]byte, pageHeader+12)
	if _, err := c.file.ReadAt(head, 0); err == nil && native.Uint32(head[pageHeader:]) == metaMagic {
		return int64(native.Uint32(head[pageHeader+8:]))
	}
	return int64(os.Getpagesize())
}

// tree checks the pages below one, whose keys are not below from and below to. Nil: no bound.
func (c *pageCheck) tree(id uint64, from, to []byte) error {
	page, err := c.read(id)
	if err != nil {
		return err
	}
	elements, err := elementsOf(page)
	if err != nil {
		return fmt.Errorf("%w: page %d: %w", ErrDamaged, id, err)
	}
	for i, e := range elements {
		next := to
		if i+1 < len(elements) {
			next = elements[i+1].key
		}
		if bytes.Compare(e.key, from) < 0 || next != nil && bytes.Compare(e.key, next) >= 0 {
			return fmt.Errorf("%w: page %d: keys out of order", ErrDamaged, id)
		}
		if err := c.below(id, e, next); err != nil {
			return err
		}
	}
	return nil
}

// below checks what an element points to.
func (c *pageCheck) below(id uint64, e element, next []byte) error {
	switch {
	case e.child != 0:
		return c.tree(e.child, e.key, next)
	case !e.bucket:
		return nil
	case len(e.value) < bucketSize:
		return fmt.Errorf("%w: page %d: a bucket of %d bytes", ErrDamaged, id, len(e.value))
	}
	if root := native.Uint64(e.value); root != 0 {
		return c.tree(root, nil, nil)
	}
	inline, err := elementsOf(e.value[bucketSize:])
	if err != nil {
		return fmt.Errorf("%w: page %d: %w", ErrDamaged, id, err)
	}
	for i, e := range inline {
		if e.child != 0 || e.bucket || i > 0 && bytes.Compare(inline[i-1].key, e.key) >= 0 {
			return fmt.Errorf("%w: page %d: a bucket inside it", ErrDamaged, id)
		}
	}
	return nil
}

// read reads a page with its overflow. A page belongs to one place in the tree.
func (c *pageCheck) read(id uint64) ([]byte, error) {
	head := make([]byte, pageHeader)
	if id < 2 || id >= c.end {
		return nil, fmt.Errorf("%w: page %d is not one of %d", ErrDamaged, id, c.end)
	}
	if _, err := c.file.ReadAt(head, int64(id)*c.size); err != nil {
		return nil, fmt.Errorf("%w: page %d: %w", ErrDamaged, id, err)
	}
	overflow := uint64(native.Uint32(head[12:]))
	if native.Uint64(head) != id || id+overflow >= c.end {
		return nil, fmt.Errorf("%w: page %d says that it is page %d with %d more", ErrDamaged, id, native.Uint64(head), overflow)
	}
	for n := id; n <= id+overflow; n++ {
		if c.seen[n] {
			return nil, fmt.Errorf("%w: page %d is there twice", ErrDamaged, n)
		}
		c.seen[n] = true
	}
	page := make([]byte, int64(1+overflow)*c.size)
	if _, err := c.file.ReadAt(page, int64(id)*c.size); err != nil {
		return nil, fmt.Errorf("%w: page %d: %w", ErrDamaged, id, err)
	}
	return page, nil
}

// element is one entry of a page.
type element struct {
	key, value []byte
	bucket     bool   // value is a bucket
	child      uint64 // page below. 0: the page is a leaf
}

// elementsOf reads the elements of a page: branch (position u32, key size u32, page u64) or leaf (flags, position, key size, value size u32).
// Positions count from the element itself.
func elementsOf(page []byte) ([]element, error) {
	if len(page) < pageHeader {
		return nil, fmt.Errorf("%d bytes", len(page))
	}
	flags, count := native.Uint16(page[8:]), int(native.Uint16(page[10:]))
	if flags != branchFlag && flags != leafFlag || flags == branchFlag && count == 0 {
		return nil, fmt.Errorf("kind %#x with %d elements", flags, count)
	}
	if len(page) < pageHeader+count*elementSize {
		return nil, fmt.Errorf("%d elements in %d bytes", count, len(page))
	}
	out := make([]element, count)
	for i := range out {
		at := uint64(pageHeader + i*elementSize)
		e := page[at:]
		position, keySize, valueSize := uint64(native.Uint32(e)), uint64(native.Uint32(e[4:])), uint64(0)
		if flags == leafFlag {
			position, keySize, valueSize = keySize, uint64(native.Uint32(e[8:])), uint64(native.Uint32(e[12:]))
			out[i].bucket = native.Uint32(e)&bucketFlag != 0
		} else if out[i].child = native.Uint64(e[8:]); out[i].child == 0 {
			return nil, fmt.Errorf("element %d is nowhere", i)
		}
		start := at + position
		if start+keySize+valueSize > uint64(len(page)) {
			return nil, fmt.Errorf("element %d goes beyond its end", i)
		}
		out[i].key, out[i].value = page[start:start+keySize], page[start+keySize:start+keySize+valueSize]
	}
	return out, nil
}
