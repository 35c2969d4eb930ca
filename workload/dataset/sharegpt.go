package dataset

import (
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/rows"
)

func init() {
	register("sharegpt", Source{Help: "conversations of a ShareGPT JSON file",
		Example: "ShareGPT JSON, plain or compressed.",
		build: func(b *builder, w *spatev1.Workload, o Options) {
			c, unused := content.File(w), &b.skipped.Unused
			b.file(c, (&sharegpt{unused: unused, chat: conversation{unused: unused},
				lengths: lengths{count: o.Count, osl: c.GetOsl()}, sessions: c.GetSessions() != nil}).parse)
		}})
}

// sharegpt reads {"id": ..., "conversations": [{"from": "human", "value": "..."}, ...]}, or the same with "messages",
// "role" and "content".
type sharegpt struct {
	lengths  lengths
	sessions bool
	chat     conversation
	unused   *Unused
}

// parse reads a conversation: all of its turns, or the first question that has an answer.
func (s *sharegpt) parse(text []byte, row *rows.Row) error {
	if err := checkObject(text); err != nil {
		return err
	}
	found := false
	for name, value := range members(text) {
		var err error
		switch name {
		case "conversations", "conversation":
			found, err = true, s.chat.read(name, value, "from", "value")
		case "messages":
			found, err = true, s.chat.read(name, value, "role", "content")
		default:
			s.unused.note(name)
		}
		if err != nil {
			return err
		}
	}
	if !found {
		return unusable("has no conversations")
	}
	if s.chat.turns(row, &s.lengths); s.sessions {
		return asSession(row)
	}
	if len(row.Content) > 0 {
		s.unused.note("system message that only sessions use")
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
