// Package rows writes and reads rows files: the compact form that datasets have on every machine.
//
// A rows file has random access, so that any agent can make any request. Equal rows give equal bytes, so a rows file is
// named by its SHA-256. A reader meets only rows as they were written, or ErrDamaged. Package dataset turns the files
// of workloads into rows.
package rows

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"
)

// Kind is what a row holds.
type Kind uint8

const (
	// Lengths is a row without content: ISL and OSL alone.
	Lengths Kind = iota
	// Text is a prompt of text.
	Text
	// Messages is the messages of a chat.
	Messages
	// TokenIDs is a prompt of token ids.
	TokenIDs
	// Blocks is a prompt of blocks, each named by a hash id.
	Blocks
	// Session is a conversation of several turns.
	Session
	// MessagesWithFields is the messages of a chat, and other fields of the request's body, such as tools.
	MessagesWithFields
	// Steps is a session whose requests may branch. Each is of a kind of its own.
	Steps
	// Texts is several independent texts: the inputs of embeddings, the documents of rerank and score.
	Texts
	// Documents is a query, and documents that are ranked by it.
	Documents
	kinds
)

// String returns what a row of the kind holds.
func (k Kind) String() string {
	names := [kinds]string{"lengths", "text", "messages", "token ids", "blocks", "a conversation", "messages with fields",
		"a session", "several texts", "a query and documents"}
	if k >= kinds {
		return "an unknown kind"
	}
	return names[k]
}

// Row is one request, or one session, of a dataset. Its slices are valid until the row is reused for another read.
type Row struct {
	// At is the time since the dataset's first row. 0 if rows have no times.
	At time.Duration
	// ISL is the length of the prompt in tokens. 0: not known.
	ISL uint32
	// OSL is the length of the output in tokens, at least 1.
	OSL uint32
	// Shared is the number of tokens at the start of the prompt that an earlier row's prompt started with too.
	Shared uint32
	// Kind selects which of the fields below are set.
	Kind Kind
	// Content of Text: the inside of a JSON string. Of Messages and MessagesWithFields: a JSON array. Of Session: the
	// system prompt as the inside of a JSON string, or empty. Of Documents: the query in the same form.
	Content []byte
	// Insert is the index in the Content of Messages and MessagesWithFields where words can be inserted in front of the
	// first message's text.
	Insert int
	// Fields of MessagesWithFields: the members of a JSON object, without its braces. Their names are in FieldNames.
	Fields []byte
	// IDs are the token ids of TokenIDs.
	IDs []uint32
	// Blocks are the hash ids of Blocks. Each stands for the dataset's BlockTokens; the last may stand for fewer.
	Blocks []uint64
	// Turns are the turns of a Session, at least one. Texts and Documents have their texts in User.
	Turns []Turn
	// Steps are the requests of Steps, at least one.
	Steps []Step
	// TurnCount is the number of turns, texts or steps: 1 for all other kinds. ReadMetadata sets it too.
	TurnCount uint32

	record  [LongRecord]byte
	content []byte
	after   []uint32 // of all steps
	chain   []uint32 // the steps before an opened one, in its conversation
	// Of the opened step. Fields may be a part of content, which steps still need.
	text, fields []byte
}

// FieldNames are the fields of a request's body that rows may have beside their messages: tools, and the form that an
// answer must have, by the names of OpenAI and vLLM.
var FieldNames = []string{"tools", "tool_choice", "parallel_tool_calls", "response_format", "structured_outputs",
	"guided_json", "guided_grammar", "guided_regex", "guided_choice"}

// HasMessages reports whether the row is the messages of a chat, with or without fields.
func (r *Row) HasMessages() bool { return r.Kind == Messages || r.Kind == MessagesWithFields }

// Turn is one question of a conversation and its recorded answer, or one of several texts.
type Turn struct {
	// ISL is the length of User in tokens. 0: not known.
	ISL uint32
	// OSL is the output length to ask for, at least 1.
	OSL uint32
	// User and Answer are insides of JSON strings. Answer is empty if the conversation ends with the question.
	User, Answer []byte
}

// Escape returns a text as rows hold it: what stands between the quotes of a JSON string.
func Escape(text string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		panic(err) // a string always encodes
	}
	return out.String()[1 : out.Len()-2] // without the quotes and the line feed
}

// Reset empties the row and keeps its memory.
func (r *Row) Reset() {
	r.At, r.ISL, r.OSL, r.Shared, r.Kind, r.Insert, r.TurnCount = 0, 0, 0, 0, Lengths, 0, 1
	r.Content, r.IDs, r.Blocks, r.Turns = r.Content[:0], r.IDs[:0], r.Blocks[:0], r.Turns[:0]
	r.Fields, r.Steps = r.Fields[:0], r.Steps[:0]
}

// The rows file, little-endian:
//
//	header    magic, version, form (field number of the content), record size, block tokens, 4 zero bytes, CRC
//	chunk     contents of up to chunkRows rows one behind the other, then their records, all of one size
//	...
//	directory offset of each chunk's records, 8 bytes each
//	trailer   rows, offset of the directory, kinds, flags, 12 zero bytes, CRC of directory and trailer, magic
//
// The file is written in one pass with the records of one chunk in memory. Row i is found with the directory (8 bytes
// for 4,096 rows) and one read. Each record has its own CRC-32C and the CRC-32C of its content.
const (
	version     = 1
	headerSize  = 32
	trailerSize = 48
	chunkRows   = 4096
	// ShortRecord holds time and lengths, for traces without content. LongRecord also holds the place of the content.
	ShortRecord = 20
	LongRecord  = 44
)

var (
	headMagic  = [8]byte{0x89, 's', 'p', 'a', 't', 'e', '\r', '\n'}
	tailMagic  = [8]byte{'s', 'p', 'r', 'o', 'w', 's', 'e', 0x1a}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// ErrDamaged is wrapped by the errors about rows files that are not as Writer wrote them.
var ErrDamaged = errors.New("damaged rows file")

// damaged returns an ErrDamaged with its reason.
func damaged(format string, args ...any) error {
	return fmt.Errorf("dataset: %w: %s: copy or build it again", ErrDamaged, fmt.Sprintf(format, args...))
}

// Flags of a rows file, for Writer.Close.
const (
	// HasTimes means that rows have times: Row.At.
	HasTimes uint32 = 1
	// fieldFlags is the flag of the first of FieldNames. The others follow.
	fieldFlags uint32 = 1 << 2
	// Continued means that steps of sessions continue the history of their conversation.
	Continued uint32 = 1 << 31
)

// FieldFlag returns the flag that says that rows have a field of FieldNames. 0: rows cannot have it.
func FieldFlag(name string) uint32 {
	i := slices.Index(FieldNames, name)
	if i < 0 {
		return 0
	}
	return fieldFlags << i
}

// Header is the start of a rows file.
type Header struct {
	// Form is the field number of the content in the workload's message.
	Form uint32
	// RecordSize is ShortRecord or LongRecord.
	RecordSize uint32
	// BlockTokens is the number of prompt tokens that each of a row's blocks stands for. 0: there are no rows of
	// blocks.
	BlockTokens uint32
}

// append appends the header's bytes.
func (h Header) append(dst []byte) []byte {
	from := len(dst)
	dst = append(dst, headMagic[:]...)
	for _, v := range []uint32{version, h.Form, h.RecordSize, h.BlockTokens, 0} {
		dst = binary.LittleEndian.AppendUint32(dst, v)
	}
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[from:], castagnoli))
}

// parseHeader checks and reads headerSize bytes.
func parseHeader(b []byte) (h Header, err error) {
	if [8]byte(b) != headMagic {
		return h, errors.New("dataset: not a rows file: its first bytes are wrong")
	}
	at := func(i int) uint32 { return binary.LittleEndian.Uint32(b[i:]) }
	if v := at(8); v != version {
		return h, fmt.Errorf("dataset: the rows file has version %d, but this program reads version %d: "+
			"build it again with this program", v, version)
	}
	if at(headerSize-4) != crc32.Checksum(b[:headerSize-4], castagnoli) {
		return h, damaged("its header's checksum is wrong")
	}
	h = Header{Form: at(12), RecordSize: at(16), BlockTokens: at(20)}
	if h.RecordSize != ShortRecord && h.RecordSize != LongRecord {
		return h, damaged("its records have %d bytes", h.RecordSize)
	}
	return h, nil
}

// trailer is the end of a rows file.
type trailer struct {
	rows      uint64
	directory uint64 // offset
	kinds     uint32 // bit k: there are rows of Kind k
	flags     uint32
}

// append appends the trailer's bytes. The checksum also covers the directory.
func (t trailer) append(dst []byte, directory uint32) []byte {
	from := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, t.rows)
	dst = binary.LittleEndian.AppendUint64(dst, t.directory)
	for _, v := range []uint32{t.kinds, t.flags, 0, 0, 0} {
		dst = binary.LittleEndian.AppendUint32(dst, v)
	}
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Update(directory, castagnoli, dst[from:]))
	return append(dst, tailMagic[:]...)
}

// parseTrailer checks and reads trailerSize bytes. checksum is the stored checksum of directory and trailer.
func parseTrailer(b []byte) (t trailer, checksum uint32, err error) {
	if [8]byte(b[trailerSize-8:]) != tailMagic {
		return t, 0, damaged("its last bytes are wrong")
	}
	t.rows, t.directory = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	t.kinds, t.flags = binary.LittleEndian.Uint32(b[16:]), binary.LittleEndian.Uint32(b[20:])
	return t, binary.LittleEndian.Uint32(b[trailerSize-12:]), nil
}

// place is where the content of a row is.
type place struct {
	offset   uint64
	length   uint32
	checksum uint32
}

// appendRecord appends the record of a row.
func appendRecord(dst []byte, size uint32, row *Row, p place) []byte {
	from, order := len(dst), binary.LittleEndian
	dst = order.AppendUint64(dst, uint64(row.At))
	dst = order.AppendUint32(dst, row.ISL)
	dst = order.AppendUint32(dst, row.OSL)
	if size == LongRecord {
		dst = order.AppendUint64(dst, p.offset|uint64(row.Kind)<<56)
		dst = order.AppendUint32(dst, p.length)
		dst = order.AppendUint32(dst, row.Shared)
		dst = order.AppendUint32(dst, row.TurnCount)
		dst = order.AppendUint32(dst, p.checksum)
	}
	return order.AppendUint32(dst, crc32.Checksum(dst[from:], castagnoli))
}

// parseRecord reads the record of row i into the row.
func parseRecord(b []byte, i uint64, row *Row) (p place, err error) {
	order, end := binary.LittleEndian, len(b)-4
	if order.Uint32(b[end:]) != crc32.Checksum(b[:end], castagnoli) {
		return p, damaged("the checksum of row %d is wrong", i)
	}
	row.At, row.ISL, row.OSL = time.Duration(order.Uint64(b)), order.Uint32(b[8:]), order.Uint32(b[12:])
	if len(b) == ShortRecord {
		return p, nil
	}
	where := order.Uint64(b[16:])
	p = place{offset: where & (1<<56 - 1), length: order.Uint32(b[24:]), checksum: order.Uint32(b[36:])}
	row.Kind, row.Shared, row.TurnCount = Kind(where>>56), order.Uint32(b[28:]), order.Uint32(b[32:])
	if row.Kind >= kinds {
		return p, damaged("row %d has the unknown kind %d", i, row.Kind)
	}
	return p, nil
}
