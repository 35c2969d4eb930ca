package table

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSectionInMarkdown(t *testing.T) {
	var b strings.Builder
	numbers := New(Words("Name"), Numbers("Number"))
	numbers.Add("a", "1").Cells[0].Link = "https://h/t?a=(b)|<c>\\"
	numbers.Add("b", "2").Cells[0].Link = "/runs/1"
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
| [a](https://h/t?a=%28b%29%7C%3Cc%3E%5C) | 1 |
| b | 2 |
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}
