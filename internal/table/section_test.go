package table

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSectionInMarkdown(t *testing.T) {
	var b strings.Builder
	numbers := New(Words("Name"), Numbers("Number"))
	numbers.Add("a", "1")
	NewSection("Empty", Text(""), List(nil), Texts([]string{"Stage"}, nil)).Markdown(&b)
	NewSection("Errors <1>", Text("Of %d stages.", 2),
		Texts([]string{"Stage", "Requests"}, [][]string{{"a \\| b\nc", Unknown}, {"*d*", "7"}}),
		List([]string{"[one](http://x)", "two"}), Block{Note: "`note`"}, Block{Heading: "Part"},
		Block{Table: numbers}).Markdown(&b)
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
