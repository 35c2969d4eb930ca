// Package rows writes and reads rows files: the compact form that datasets have on every machine.
//
// A rows file has random access, so that any agent can make any request. Equal rows give equal bytes, so a rows file is
// named by its SHA-256. A reader meets only rows as they were written, or ErrDamaged. Package dataset turns the files
// of workloads into rows.
package rows

import (
	"encoding/json"
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
