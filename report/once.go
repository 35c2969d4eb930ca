package report

import (
	"fmt"
	"strings"

	"github.com/spate-load/spate/aggregate"
)

// shortReason is the length in bytes up to which a reason may stand in a table's notes more than once.
const shortReason = 40

// once writes the notes of a table, each long reason in full once. The zero value has written nothing.
type once struct{ said []said }

// said is a note that stands in full, and whose it is.
type said struct{ load, text string }

// missing joins what is missing of a stage.
func (o *once) missing(load string, parts []string) string {
	short := make([]string, len(parts))
	for i, part := range parts {
		short[i] = o.shorten(load, part)
	}
	return strings.Join(short, "; ")
}

// shorten takes the reason off a note ("agent a failed: REASON") that has been given before, and says where if that was
// another stage.
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

// has returns the load of the stage whose note has a reason.
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

// example is a request's failure in words. Empty: a note has it.
func (o *once) example(s aggregate.StageResult) string {
	text := firstExample(s)
	if _, found := o.has(strings.TrimSuffix(text, "…")); found || text == "" {
		return ""
	}
	return fmt.Sprintf("; for example: %s", text)
}
