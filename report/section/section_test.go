package section

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMarkdown(t *testing.T) {
	var b strings.Builder
	New("Empty", Text(""), List(nil), Table([]string{"Stage"}, nil)).Markdown(&b)
	New("Errors <1>", Text("Of %d stages.", 2),
		Table([]string{"Stage", "Requests"}, [][]string{{"a \\| b\nc", Unknown}, {"*d*", "7"}}),
		List([]string{"[one](http://x)", "two"}), Block{Note: "`note`"}, Block{Heading: "Part"},
		Block{Headers: []string{"Name", "Number"}, Rows: [][]string{{"a", "1"}}, Words: []bool{true, false}}).Markdown(&b)
	want := `
## Errors &lt;1>

Of 2 stages.

| Stage | Requests |
|:-:|:-:|
| a \\\| b c | n/a |
| \*d\* | 7 |

- \[one](http://x)
- two

! \` + "`note\\`" + `

### Part

| Name | Number |
|:-|-:|
| a | 1 |
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

// A column has words if a text in it has a letter; n/a says nothing about it. Rows may be longer than the header.
func TestColumnsWithWords(t *testing.T) {
	got := Table([]string{"Stage", "Number"}, [][]string{{"1: a", Unknown}, {"2", "3.5", "note"}}).Words
	if diff := cmp.Diff([]bool{true, false, true}, got); diff != "" {
		t.Error(diff)
	}
}
