package workload

import (
	"strconv"

	"github.com/spate-load/spate/workload/draw"
)

// role is the role of the author of a chat message.
type role string

const (
	system    role = "system"
	user      role = "user"
	assistant role = "assistant"
)

// transcript writes the conversation so far as a prompt: chat messages, or everything joined to one text or one list of
// token ids. The order of calls is open, then begin, tokens or answer, and end for each message, then close.
type transcript struct {
	dst            []byte
	form           Form
	words          *vocabulary
	messages       int  // started so far
	needsSeparator bool // the next token needs a separator in front of it
}

// open starts a prompt behind dst.
func open(dst []byte, form Form, words *vocabulary) transcript {
	if form == Text {
		dst = append(dst, '"')
	} else {
		dst = append(dst, '[')
	}
	return transcript{dst: dst, form: form, words: words}
}

// begin starts a message.
func (t *transcript) begin(by role) {
	if t.form != Messages {
		return
	}
	if t.messages > 0 {
		t.dst = append(t.dst, ',')
	}
	t.dst = append(t.dst, `{"role":"`...)
	t.dst = append(t.dst, by...)
	t.dst = append(t.dst, `","content":"`...)
	t.messages++
	t.needsSeparator = false
}

// beginWithImages starts a message whose content is a list of parts: a text, and images that endWithImages adds.
func (t *transcript) beginWithImages(by role) {
	t.begin(by)
	t.dst = append(t.dst[:len(t.dst)-1], `[{"type":"text","text":"`...)
}

// endWithImages ends a message with the images of a request behind its text.
func (t *transcript) endWithImages(all *images, index uint64) {
	t.end()
	all.of(index, func(part []byte) { t.dst = append(append(t.dst, ','), part...) })
	t.dst = append(t.dst, "]}"...)
}

// tokens appends the n tokens that numbers from, from+1, ... of a sequence draw to the message.
func (t *transcript) tokens(sequence draw.Sequence, from, n uint64) {
	if n == 0 {
		return
	}
	if t.needsSeparator {
		t.dst = append(t.dst, t.separator())
	}
	t.dst = t.words.append(t.dst, t.form, sequence, from, n, !t.needsSeparator)
	t.needsSeparator = true
}

// separator returns the byte between two tokens.
func (t *transcript) separator() byte {
	if t.form == TokenIDs {
		return ','
	}
	return ' '
}

// ids appends token ids.
func (t *transcript) ids(list []uint32) {
	for _, id := range list {
		if t.needsSeparator {
			t.dst = append(t.dst, ',')
		}
		t.dst = strconv.AppendUint(t.dst, uint64(id), 10)
		t.needsSeparator = true
	}
}

// text appends text to a message, behind a space if the message has something. The text is the inside of a JSON string.
func (t *transcript) text(text []byte) {
	if t.needsSeparator {
		t.dst = append(t.dst, ' ')
	}
	t.answer(text)
}

// answer appends a server's answer, still escaped. In a text it follows the prompt with nothing in between, because
// that is how the server continued it.
func (t *transcript) answer(text []byte) {
	t.dst = append(t.dst, text...)
	t.needsSeparator = t.needsSeparator || len(text) > 0
}

// end ends a message.
func (t *transcript) end() {
	if t.form == Messages {
		t.dst = append(t.dst, `"}`...)
	}
}

// close ends the prompt and returns it.
func (t *transcript) close() []byte {
	if t.form == Text {
		return append(t.dst, '"')
	}
	return append(t.dst, ']')
}
