// Package dataset turns the file of a workload into rows, and reads rows.
//
// A source file (a ShareGPT export, a trace, a list of prompts) is read once, by Build, in a stream: whatever its size,
// its memory is bounded. What comes out is a rows file, a compact form of our own that is the same to the byte for the
// same source, is named by its SHA-256, and is read at random: any agent can make any request. Everything that a source
// can have wrong is found by Build and said with the number of its line; what reads rows meets only good ones, or a
// damaged file.
//
// The package makes no prompts: that is what workload does with the rows. It knows no network, no plan and no server.
// `spate run` calls Build, agents call Open.
package dataset

import "time"

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
	// Blocks is a prompt of blocks that are named by hash ids.
	Blocks
	// Session is a conversation of several turns.
	Session
	kinds
)

// String returns what a row of the kind holds.
func (k Kind) String() string {
	names := [kinds]string{"lengths", "text", "messages", "token ids", "blocks", "a conversation"}
	if k >= kinds {
		return "an unknown kind"
	}
	return names[k]
}

// Row is one request, or one session, of a dataset. Its slices are valid until the row is read into again.
type Row struct {
	// At is the time since the dataset's first row. 0 if rows have no times.
	At time.Duration
	// ISL is the length of the prompt in tokens. 0: not known.
	ISL uint32
	// OSL is the length of the output in tokens, at least 1.
	OSL uint32
	// Shared is how many of the prompt's first tokens the prompt of an earlier row began with too.
	Shared uint32
	// Kind says which of the fields below is set.
	Kind Kind
	// Content of Text: the inside of a JSON string. Of Messages: a JSON array. Of Session: the system prompt, the
	// inside of a JSON string, or nothing.
	Content []byte
	// Insert is where words can be inserted in front of the first message's text: a place in the Content of Messages.
	Insert int
	// IDs of TokenIDs.
	IDs []uint32
	// Blocks are the hash ids of Blocks, each of which stands for the dataset's BlockTokens; the last one perhaps for
	// fewer.
	Blocks []uint64
	// Turns of Session, at least one.
	Turns []Turn
	// TurnCount is the number of turns: 1 unless the row is a Session. Head fills it too.
	TurnCount uint32

	record  [longRecord]byte
	content []byte
}

// Turn is one question of a conversation and the answer that it got when it was recorded.
type Turn struct {
	// ISL is the length of User in tokens. 0: not known.
	ISL uint32
	// OSL is the length of output to ask for, at least 1.
	OSL uint32
	// User and Answer are each the inside of a JSON string. Answer is empty if the conversation ends with the question.
	User, Answer []byte
}

// clear empties the row and keeps its memory.
func (r *Row) clear() {
	r.At, r.ISL, r.OSL, r.Shared, r.Kind, r.Insert, r.TurnCount = 0, 0, 0, 0, Lengths, 0, 1
	r.Content, r.IDs, r.Blocks, r.Turns = r.Content[:0], r.IDs[:0], r.Blocks[:0], r.Turns[:0]
}
