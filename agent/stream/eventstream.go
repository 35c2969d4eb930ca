package stream

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// AWS's binary encoding of event streams, application/vnd.amazon.eventstream: messages, each with a prelude, headers,
// a payload and a checksum. All numbers are big endian.
//
//	total length (4) | length of headers (4) | CRC of these 8 bytes (4) | headers | payload | CRC of all before (4)
const (
	preludeSize  = 12
	checksumSize = 4
	emptyMessage = preludeSize + checksumSize
)

var (
	errPrelude  = errors.New("invalid message in the event stream: the checksum of its lengths does not match")
	errLengths  = errors.New("invalid message in the event stream: impossible lengths")
	errChecksum = errors.New("invalid message in the event stream: its checksum does not match")
	errHeaders  = errors.New("invalid message in the event stream: malformed headers")
	errHalf     = errors.New("the event stream ended within a message")
)

// nextMessage implements Next for a binary stream. It sets Name and Failed by the message's headers.
func (e *eventReader) nextMessage() ([]byte, bool) {
	b := e.buf[e.line:e.end]
	if e.Err != nil || len(b) < preludeSize {
		return nil, false
	}
	total, headers := int(binary.BigEndian.Uint32(b)), int(binary.BigEndian.Uint32(b[4:]))
	switch {
	case crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]):
		e.Err = errPrelude
	case total > e.limit:
		e.Err = errFrameTooLong
	case total < emptyMessage || headers > total-emptyMessage:
		e.Err = errLengths
	}
	if e.Err != nil || len(b) < total {
		return nil, false
	}
	body := b[:total-checksumSize]
	if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(b[len(body):]) {
		e.Err = errChecksum
		return nil, false
	}
	e.line += total
	return e.message(body[preludeSize:preludeSize+headers], body[preludeSize+headers:])
}

// message reads the headers of a message and returns its payload. An error without a payload has its text in a header.
func (e *eventReader) message(headers, payload []byte) ([]byte, bool) {
	e.Name, e.Failed = nil, false
	for len(headers) > 0 {
		name, value, rest, ok := cutHeader(headers)
		if !ok {
			e.Err = errHeaders
			return nil, false
		}
		headers = rest
		switch string(name) {
		case ":event-type", ":exception-type", ":error-code":
			e.Name = value
		case ":message-type":
			e.Failed = string(value) != "event"
		case ":error-message":
			if len(payload) == 0 {
				payload = value
			}
		}
	}
	return payload, true
}

// headerSizes are the sizes of headers' values by type. Types 6 and 7, bytes and strings, have a length before them.
var headerSizes = [...]int{0, 0, 1, 2, 4, 8, -1, -1, 8, 16}

// cutHeader splits headers after the first. value is what a string has, or any bytes.
func cutHeader(b []byte) (name, value, rest []byte, ok bool) {
	if len(b) < 1 || len(b) < 2+int(b[0]) {
		return nil, nil, nil, false
	}
	name, b = b[1:1+b[0]], b[1+b[0]:]
	kind := int(b[0])
	if b = b[1:]; kind >= len(headerSizes) {
		return nil, nil, nil, false
	}
	size := headerSizes[kind]
	if size < 0 {
		if len(b) < 2 {
			return nil, nil, nil, false
		}
		size, b = int(binary.BigEndian.Uint16(b)), b[2:]
	}
	if len(b) < size {
		return nil, nil, nil, false
	}
	return name, b[:size], b[size:], true
}

// lastMessage implements Last for a binary stream: the end of the stream completes no message.
func (e *eventReader) lastMessage() ([]byte, bool) {
	if e.Err == nil && e.line < e.end {
		e.Err = errHalf
	}
	return nil, false
}
