package rows

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// stepsDrawn draws the steps of a session, and for each a row with the content that it was given.
func stepsDrawn(t *rapid.T) (steps []Step, contents []Row) {
	text := rapid.SliceOfN(rapid.ByteRange('a', 'b'), 0, 10)
	for n := range rapid.IntRange(1, 6).Draw(t, "steps") {
		row := Row{Kind: rapid.SampledFrom([]Kind{Lengths, Text, Blocks, Messages, MessagesWithFields}).Draw(t, "kind"),
			ISL: rapid.Uint32().Draw(t, "isl"), OSL: rapid.Uint32().Draw(t, "osl"),
			Shared: rapid.Uint32().Draw(t, "shared")}
		switch row.Kind {
		case Blocks:
			row.Blocks = rapid.SliceOfN(rapid.Uint64Range(0, 3), 0, 6).Draw(t, "blocks")
		case MessagesWithFields:
			row.Fields = text.Draw(t, "fields")
			fallthrough
		case Text, Messages:
			row.Content = text.Draw(t, "content")
			row.Insert = rapid.IntRange(0, len(row.Content)).Draw(t, "insert")
		}
		s := Step{ISL: row.ISL, OSL: row.OSL, Shared: row.Shared, Continues: rapid.Bool().Draw(t, "continues"),
			Delay:    time.Duration(rapid.Int64Min(0).Draw(t, "delay")),
			At:       time.Duration(rapid.Int64Min(0).Draw(t, "at")),
			Previous: uint32(rapid.IntRange(0, n).Draw(t, "previous"))}
		for a := range n {
			if rapid.Bool().Draw(t, "after") {
				s.After = append(s.After, uint32(a))
			}
		}
		var previous *Row
		if s.Previous > 0 {
			previous = &contents[s.Previous-1]
		}
		s.SetContent(&row, previous)
		steps, contents = append(steps, s), append(contents, row)
	}
	return steps, contents
}

// TestStepsKeepTheirContent: each step of a session that was written and read has the content that it was given,
// whatever it has in common with other steps and in whatever order steps are opened.
func TestStepsKeepTheirContent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sessions []Row
		var contents [][]Row
		for range rapid.IntRange(1, 3).Draw(t, "sessions") {
			steps, of := stepsDrawn(t)
			sessions = append(sessions, Row{Kind: Steps, TurnCount: uint32(len(steps)), Steps: steps})
			contents = append(contents, of)
		}
		b := written(t, sessions, LongRecord)
		r, err := New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		var got Row
		for range 12 {
			i := rapid.IntRange(0, len(sessions)-1).Draw(t, "session")
			if err := r.Read(uint64(i), &got); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				n := rapid.IntRange(0, len(sessions[i].Steps)-1).Draw(t, "step")
				if err := got.OpenStep(n); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(contents[i][n], got, cmpopts.IgnoreUnexported(Row{}), cmpopts.EquateEmpty(),
					cmpopts.IgnoreFields(Row{}, "Steps", "TurnCount")); diff != "" {
					t.Fatal(diff)
				}
			}
		}
		for k := range kinds {
			has := k == Steps || slices.ContainsFunc(sessions, func(s Row) bool {
				return slices.ContainsFunc(s.Steps, func(s Step) bool { return s.Kind == k })
			})
			if r.Has(k) != has {
				t.Fatalf("Has(%v) is %t", k, !has)
			}
		}
	})
}

// TestCommonPartsOfStepsAreStoredOnce: a session whose prompts repeat their history takes about as much as its last
// one.
func TestCommonPartsOfStepsAreStoredOnce(t *testing.T) {
	var session Row
	var previous *Row
	for n := range uint32(100) {
		row := &Row{Kind: Messages, Content: bytes.Repeat([]byte("m"), int(n+1)*100)}
		s := Step{OSL: 1, Previous: n}
		s.SetContent(row, previous)
		session.Steps, previous = append(session.Steps, s), row
	}
	session.Kind, session.TurnCount = Steps, 100
	if n := len(written(t, []Row{session}, LongRecord)); n > 15_000 {
		t.Errorf("100 prompts of 100 to 10,000 bytes take %d", n)
	}
}
