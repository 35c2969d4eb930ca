package dataset

import (
	"bytes"

	"github.com/spate-load/spate/workload/rows"
)

// specBench reads {"question_id": n, "category": "...", "turns": ["...", ...]}, which MT-Bench has, too: the questions
// of a conversation without answers. Without sessions, the first question is the prompt.
func (f *anyFile) specBench(text []byte, row *rows.Row) error {
	for name, value := range members(text) {
		if name != "turns" {
			f.unused.note(name)
			continue
		}
		if value[0] != '[' {
			return unusable("turns is %s, not an array", typeOf(value))
		}
		for turn := range values(value) {
			question, err := stringInside("turns", turn)
			if err != nil {
				return err
			}
			if len(bytes.TrimSpace(question)) == 0 {
				return unusable("turns has an empty question")
			}
			row.Turns = append(row.Turns, rows.Turn{ISL: f.lengths.tokens(question), OSL: f.lengths.output(0, nil),
				User: question})
		}
	}
	if len(row.Turns) == 0 {
		return unusable("has no turns")
	}
	if f.sessions {
		return asSession(row)
	}
	first := row.Turns[0]
	row.Turns = row.Turns[:0]
	f.text(string(first.User), nil, row)
	return nil
}
