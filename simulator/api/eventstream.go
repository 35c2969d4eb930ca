package api

import (
	"encoding/binary"
	"hash/crc32"
)

// The event stream encoding (https://smithy.io/2.0/aws/amazon-eventstream.html): a message is a prelude of its length,
// the length of its headers and the CRC-32 of both, then the headers, the payload, and the CRC-32 of all before it.
const (
	preludeLength = 12
	crcLength     = 4
	stringHeader  = 7 // the type of a header's value
)

// message starts a message of a type: event or exception.
func (p *FrameWriter) message(b []byte, kind, name string) []byte {
	p.begun = len(b)
	var prelude [preludeLength]byte
	b = append(b, prelude[:]...)
	b = appendHeader(b, ":", kind, "-type", name)
	b = appendHeader(b, ":content-type", "", "", "application/json")
	b = appendHeader(b, ":message-type", "", "", kind)
	p.headers = len(b) - p.begun - preludeLength
	return b
}

// appendHeader appends a header whose name has three parts.
func appendHeader(b []byte, start, middle, end, value string) []byte {
	b = append(b, byte(len(start)+len(middle)+len(end)))
	b = append(b, start...)
	b = append(b, middle...)
	b = append(b, end...)
	b = append(b, stringHeader)
	b = binary.BigEndian.AppendUint16(b, uint16(len(value)))
	return append(b, value...)
}

// endMessage fills in the prelude of the last message, which ends the buffer, and appends its CRC.
func (p *FrameWriter) endMessage(b []byte) []byte {
	m := b[p.begun:]
	binary.BigEndian.PutUint32(m, uint32(len(m)+crcLength))
	binary.BigEndian.PutUint32(m[4:], uint32(p.headers))
	binary.BigEndian.PutUint32(m[8:], crc32.ChecksumIEEE(m[:8]))
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(m))
}
