package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
)

// Packets records when each TCP segment reached the sockets that it watches, whenever the program gets to read them. A
// BPF program, a socket filter that accepts everything, notes each segment in a ring of memory that the kernel shares
// with this process. One goroutine at a time may use Packets.
type Packets struct {
	ring     *ebpf.Map
	program  *ebpf.Program
	consumer []byte        // the page in which this process writes how far it has read
	producer []byte        // the page in which the kernel writes how far it has written; then the ring, twice in a row
	read     uint64        // how far this process has read
	written  uint64        // and the kernel had written, when this process looked
	ahead    time.Duration // see clockAhead
}

// Segment is a TCP segment that reached a watched socket.
type Segment struct {
	Cookie uint64        // the socket: see Cookie
	At     clock.Instant // when the kernel handed the segment to the socket
	Seq    uint32        // sequence number of the first byte, or of the SYN
	Length uint32        // bytes of payload
	SYN    bool
}

const (
	// packetsRing is the size of the ring, in bytes: 131,072 segments.
	packetsRing = 4 << 20
	// segmentBytes is the size of a segment's record: cookie, time, sequence number, length and flags. recordHead is
	// the kernel's head of a record, and recordBusy its bit while the record is being written.
	segmentBytes, recordHead, recordBusy = 24, 8, 1 << 31
)

// OpenPackets loads the BPF program and makes its ring. Without the capability CAP_BPF it fails with os.ErrPermission,
// and does not call bpf: a filter of system calls may end the process for that.
func OpenPackets() (*Packets, error) {
	if !mayLoad() {
		return nil, fmt.Errorf("load the program: %w", os.ErrPermission)
	}
	p := new(Packets)
	if err := p.open(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// mayLoad reports whether the process has a capability to load BPF programs.
func mayLoad() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if unix.Capget(&header, &has[0]) != nil {
		return false
	}
	all := uint64(has[1].Effective)<<32 | uint64(has[0].Effective)
	return all&(1<<unix.CAP_BPF|1<<unix.CAP_SYS_ADMIN) != 0
}

// clockAhead returns how far this process's monotonic clock is ahead of the machine's, which BPF programs read. The two
// differ in a time namespace (time_namespaces(7)), whose offset is in seconds and nanoseconds.
func clockAhead() (time.Duration, error) {
	own, err1 := os.Readlink("/proc/self/ns/time")
	children, err2 := os.Readlink("/proc/self/ns/time_for_children")
	if errors.Is(err1, os.ErrNotExist) {
		return 0, nil // a kernel without time namespaces
	}
	if err := errors.Join(err1, err2); err != nil {
		return 0, err
	}
	if own != children { // the offsets are those of the children
		return 0, fmt.Errorf("the offset of time namespace %s is not known", own)
	}
	text, err := os.ReadFile("/proc/self/timens_offsets")
	if err != nil {
		return 0, err
	}
	return parseOffset(string(text))
}

// parseOffset returns the monotonic clock's offset in the text of timens_offsets.
func parseOffset(text string) (time.Duration, error) {
	var seconds, nanos int64
	if _, err := fmt.Sscanf(text, "monotonic %d %d", &seconds, &nanos); err != nil {
		return 0, fmt.Errorf("read the offset of the time namespace in %q: %w", text, err)
	}
	return time.Duration(seconds)*time.Second + time.Duration(nanos), nil
}

func (p *Packets) open() (err error) {
	if p.ahead, err = clockAhead(); err != nil {
		return err
	}
	p.ring, err = ebpf.NewMap(&ebpf.MapSpec{Name: "spate_segments", Type: ebpf.RingBuf, MaxEntries: packetsRing})
	if err != nil {
		return fmt.Errorf("make the ring: %w", err)
	}
	p.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{Name: "spate_segments", Type: ebpf.SocketFilter,
		Instructions: noteSegment(p.ring.FD()), License: "Apache-2.0"})
	if err != nil {
		return fmt.Errorf("load the program: %w", err)
	}
	page := os.Getpagesize()
	p.consumer, err = unix.Mmap(p.ring.FD(), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == nil {
		p.producer, err = unix.Mmap(p.ring.FD(), int64(page), page+2*packetsRing, unix.PROT_READ, unix.MAP_SHARED)
	}
	if err != nil {
		return fmt.Errorf("map the ring: %w", err)
	}
	return nil
}

// noteSegment returns the program. A socket's filter sees a segment from its TCP header on.
func noteSegment(ring int) asm.Instructions {
	const (
		skbLen = 0 // struct __sk_buff
		record = -segmentBytes
		header = record - 16 // bytes 4 to 13 of the TCP header
		noWake = 1           // BPF_RB_NO_WAKEUP
	)
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, skbLen, asm.Word),
		asm.Mov.Imm(asm.R2, 4),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, header),
		asm.Mov.Imm(asm.R4, 10),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "accept"),
		asm.LoadMem(asm.R1, asm.RFP, header+8, asm.Byte), // the header's length, in words, in the upper half
		asm.RSh.Imm(asm.R1, 4),
		asm.LSh.Imm(asm.R1, 2),
		asm.Sub.Reg(asm.R7, asm.R1),
		asm.LoadMem(asm.R1, asm.RFP, header+9, asm.Byte), // flags
		asm.And.Imm(asm.R1, 2),                           // SYN
		asm.LSh.Imm(asm.R1, 30),
		asm.Or.Reg(asm.R7, asm.R1),
		asm.JEq.Imm(asm.R7, 0, "accept"), // a bare acknowledgement
		asm.StoreMem(asm.RFP, record+20, asm.R7, asm.Word),
		asm.LoadMem(asm.R1, asm.RFP, header, asm.Word),
		asm.HostTo(asm.BE, asm.R1, asm.Word),
		asm.StoreMem(asm.RFP, record+16, asm.R1, asm.Word),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, record+8, asm.R0, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.FnGetSocketCookie.Call(),
		asm.StoreMem(asm.RFP, record, asm.R0, asm.DWord),
		asm.LoadMapPtr(asm.R1, ring),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, record),
		asm.Mov.Imm(asm.R3, segmentBytes),
		asm.Mov.Imm(asm.R4, noWake),
		asm.FnRingbufOutput.Call(), // a full ring loses the segment: its bytes then have no time
		asm.Mov.Imm(asm.R0, -1).WithSymbol("accept"),
		asm.Return(),
	}
}

// Watch notes a socket's segments from now on.
func (p *Packets) Watch(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ATTACH_BPF, p.program.FD()); err != nil {
		return fmt.Errorf("attach the program to a socket: %w", err)
	}
	return nil
}

// Cookie returns the number by which segments name their socket.
func Cookie(fd int) (uint64, error) {
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("the socket's cookie: %w", err)
	}
	return cookie, nil
}

// Next returns the next segment, in the order in which the kernel noted them. False: there is none yet. It looks at
// what another core may be writing only when it has read all that it knew of, and tells the kernel only then, and once
// a page, how far it has read: each look and each telling takes as long as reading several records.
func (p *Packets) Next() (s Segment, ok bool) {
	if p.read == p.written || p.read%uint64(os.Getpagesize()) == 0 {
		atomic.StoreUint64((*uint64)(unsafe.Pointer(&p.consumer[0])), p.read)
		if p.written = atomic.LoadUint64((*uint64)(unsafe.Pointer(&p.producer[0]))); p.read == p.written {
			return Segment{}, false
		}
	}
	b := p.producer[os.Getpagesize()+int(p.read%packetsRing):][:recordHead+segmentBytes]
	for busy := true; busy; { // for less than a microsecond
		busy = atomic.LoadUint32((*uint32)(unsafe.Pointer(&b[0])))&recordBusy != 0
	}
	p.read += recordHead + segmentBytes
	b = b[recordHead:]
	length := binary.NativeEndian.Uint32(b[20:])
	at := clock.Instant(binary.NativeEndian.Uint64(b[8:])).Add(p.ahead)
	return Segment{Cookie: binary.NativeEndian.Uint64(b), At: at,
		Seq: binary.NativeEndian.Uint32(b[16:]), Length: length &^ (1 << 31), SYN: length>>31 != 0}, true
}

// Close releases the program and the ring. Sockets that are still open keep the program.
func (p *Packets) Close() {
	_ = unix.Munmap(p.consumer) // each may be nil
	_ = unix.Munmap(p.producer)
	_ = p.program.Close()
	_ = p.ring.Close()
}
