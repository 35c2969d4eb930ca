package dataset

import (
	"bytes"
	"fmt"
	"slices"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/rows"
)

// The sides of a conversation.
const (
	system = iota
	user
	assistant
)

// sides maps the speakers' names in exported conversations to sides.
var sides = map[string]int{
	"system":    system,
	"human":     user,
	"user":      user,
	"gpt":       assistant,
	"assistant": assistant,
	"chatgpt":   assistant,
	"bing":      assistant,
	"bard":      assistant,
	"model":     assistant,
	"bot":       assistant,
}

// speech is what one side says. The text is the inside of a JSON string.
type speech struct {
	side   int
	text   []byte
	copied bool // text is a copy that may be appended to, and no part of the item
}

// paragraph separates two lines of one side. It is the inside of a JSON string.
const paragraph = `\n\n`

// conversation is a conversation that is being read.
type conversation struct {
	lines []speech
	limit uint32 // the row's own output length. 0: none
	// unused counts the members of lines that are not used.
	unused *Unused
}

// add appends what a side says. Consecutive lines of one side become one, so that sides alternate, as chat templates
// require.
func (c *conversation) add(side int, text []byte) {
	n := len(c.lines)
	if n == 0 || c.lines[n-1].side != side {
		c.lines = append(c.lines, speech{side: side, text: text})
		return
	}
	last := &c.lines[n-1]
	if !last.copied {
		last.text, last.copied = slices.Clone(last.text), true
	}
	last.text = append(append(last.text, paragraph...), text...)
}

// read reads an array of lines. Each is an object with a speaker and a text: role and content, or from and value.
func (c *conversation) read(name string, array []byte) error {
	c.lines = c.lines[:0]
	if array[0] != '[' {
		return unusable("%s is %s, not an array", name, typeOf(array))
	}
	for value := range values(array) {
		if value[0] != '{' {
			return unusable("%s has %s in place of an object", name, typeOf(value))
		}
		if err := c.readLine(value); err != nil {
			return err
		}
	}
	return nil
}

// readLine reads one line.
func (c *conversation) readLine(line []byte) error {
	o, sideName, textName := objectIn(line), "role", "content"
	if o[sideName] == nil {
		sideName, textName = "from", "value"
	}
	who, err := o.text(sideName)
	if err != nil {
		return err
	}
	text, err := o.text(textName)
	if err != nil {
		return err
	}
	if who == nil || text == nil {
		return unusable("has a message without role and content, or from and value")
	}
	side, known := sides[string(bytes.ToLower(who))]
	if !known {
		return unusable("%s is %.40q, which is neither a user nor an assistant", sideName, who)
	}
	o.rest(c.unused, "")
	c.add(side, text)
	return nil
}

// turns appends the questions and their answers to the row, and sets its system prompt. It drops what an assistant says
// before the first question, blank questions, and a last question without an answer if there is no output length to ask
// for.
func (c *conversation) turns(row *rows.Row, o *lengths) {
	for i, l := range c.lines {
		switch l.side {
		case system:
			if len(row.Turns) == 0 {
				row.Content = append(row.Content[:0], l.text...)
			}
		case user:
			t := rows.Turn{ISL: o.tokens(l.text), User: l.text}
			if i+1 < len(c.lines) && c.lines[i+1].side == assistant {
				t.Answer = c.lines[i+1].text
			}
			if t.OSL = o.output(c.limit, t.Answer); t.OSL > 0 && len(bytes.TrimSpace(t.User)) > 0 {
				row.Turns = append(row.Turns, t)
			}
		}
	}
}

// lengths computes the lengths of texts.
type lengths struct {
	// count counts tokens. Nil: there is no tokenizer.
	count func(text string) int
	// osl is the workload's output length. 0: the length of the answer.
	osl uint32
	// fallback is the output length if there is no answer either. 0: none.
	fallback uint32
}

// tokens returns the length of a text. 0: not known.
func (l *lengths) tokens(inside []byte) uint32 {
	if l.count == nil {
		return 0
	}
	return clamp(l.count(unescape(inside)))
}

// output returns the output length to ask for: the row's own, else the workload's, else the length of the recorded
// answer. Without a tokenizer, the length of an answer is estimated as a quarter of its bytes in UTF-8. The estimate is
// good enough for a limit, and is never reported as an observed length.
func (l *lengths) output(own uint32, answer []byte) uint32 {
	switch {
	case own > 0:
		return own
	case l.osl > 0:
		return l.osl
	case len(answer) == 0:
		return l.fallback
	case l.count != nil:
		return max(1, l.tokens(answer))
	}
	return max(1, clamp((len(unescape(answer))+3)/4))
}

// clamp limits a length to 0 to maxLength.
func clamp(n int) uint32 { return uint32(min(max(n, 0), maxLength)) }

// maxSonnetBytes is the maximum size, in bytes, of the text of a sonnet workload. Agents keep the text in memory.
const maxSonnetBytes = 16 << 20

// sonnet reads the lines of a text, each with its line feed. Empty lines are left out. The longest request is the one
// that the workload asks for, whatever the lines.
func (b *builder) sonnet(c *spatev1.SonnetContent, o Options) {
	size, f := 0, &anyFile{reader: &reader{lengths: lengths{count: o.Count, osl: c.GetOsl()}}}
	b.openItems = func(s *itemSource) (itemReader, error) { return newLines(s.Reader), nil }
	b.rows(func(text []byte, row *rows.Row) error {
		if size += len(text); size > maxSonnetBytes {
			return fmt.Errorf("the text is longer than %d MiB: sonnet is for short texts, use jsonl for longer ones",
				maxSonnetBytes>>20)
		}
		return f.line(append(slices.Clone(text), '\n'), row)
	})
	b.end = func() error {
		b.longest, b.unknown = uint64(c.GetIsl())+uint64(c.GetOsl()), false
		return nil
	}
}

// conversation reads {"id": ..., "conversations": [{"from": "human", "value": "..."}, ...]}, or the same with
// "messages", or with "role" and "content": all turns, or the first question that has an answer.
func (r *reader) conversation(o object, row *rows.Row) error {
	lines, messages := o.take("conversations", "conversation"), o.take("messages")
	r.chat.limit = 0 // of another row
	var err error
	switch {
	case lines != nil:
		err = r.chat.read("conversations", lines)
	case messages != nil:
		err = r.chat.read("messages", messages)
	default:
		err = unusable("has no conversations")
	}
	if err != nil {
		return err
	}
	o.rest(r.unused, "")
	answered := r.lengths
	answered.fallback = 0
	if r.chat.turns(row, &answered); r.sessions {
		return asSession(row)
	}
	if len(row.Content) > 0 {
		r.unused.note("system message that only sessions use")
	}
	return asFirstQuestion(row)
}

// noAnswer is the reason for leaving out a conversation. vLLM's benchmark leaves out conversations of fewer than two
// turns.
const noAnswer = "has no question with an answer"

// asSession makes the row a session of all its turns.
func asSession(row *rows.Row) error {
	if len(row.Turns) == 0 {
		return exclude(noAnswer)
	}
	first := row.Turns[0]
	row.Kind, row.TurnCount = rows.Session, uint32(len(row.Turns))
	if row.OSL = first.OSL; len(row.Content) == 0 {
		row.ISL = first.ISL
	}
	return nil
}

// asFirstQuestion makes the row its first question that has an answer.
func asFirstQuestion(row *rows.Row) error {
	for _, t := range row.Turns {
		if len(t.Answer) > 0 {
			row.Kind, row.ISL, row.OSL = rows.Text, t.ISL, t.OSL
			row.Content, row.Turns = append(row.Content[:0], t.User...), row.Turns[:0]
			return nil
		}
	}
	return exclude(noAnswer)
}
