package report

import (
	"fmt"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
)

// shortReason is the length in bytes up to which a reason may appear in a table's notes more than once.
const shortReason = 40

// once keeps track of the notes of a table, so that each long reason appears in full only once. The zero value is ready
// for use.
type once struct{ said []said }

// said is a note that was written in full, and the load of its stage.
type said struct{ load, text string }

// missing joins the notes of what is missing of a stage, shortened.
func (o *once) missing(load string, parts []string) string {
	short := make([]string, len(parts))
	for i, part := range parts {
		short[i] = o.shorten(load, part)
	}
	return strings.Join(short, "; ")
}

// shorten removes the reason from a note ("agent a failed: REASON") if the reason has appeared before. If that was at
// another stage, it says where.
func (o *once) shorten(load, text string) string {
	for at := 0; ; {
		cut := strings.Index(text[at:], ": ")
		if cut < 0 || len(text)-at-cut <= shortReason {
			o.said = append(o.said, said{load, text})
			return text
		}
		at += cut + 2
		if where, found := o.has(text[at:]); found {
			return text[:at-2] + elsewhere(load, where)
		}
	}
}

// has returns the load of the stage whose note contains a reason.
func (o *once) has(reason string) (load string, found bool) {
	for _, s := range o.said {
		if strings.Contains(s.text, reason) {
			return s.load, true
		}
	}
	return "", false
}

func elsewhere(load, where string) string {
	if load == where {
		return ""
	}
	return " (see " + where + ")"
}

// example returns words for the failure of a request, or "" if there is none or a note contains it.
func (o *once) example(s results.StageResult) string {
	text := firstExample(s)
	if _, found := o.has(strings.TrimSuffix(text, "…")); found || text == "" {
		return ""
	}
	return fmt.Sprintf("; for example: %s", text)
}
