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
			b.rows(objects(newReader(b, content.File(w), o).conversation))
		}})
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
