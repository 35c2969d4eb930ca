package thresholds

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/internal/words"
)

// The grammar: two sides with a comparison between them. A side is a value, or two with an operator between them.
const (
	valuePattern = `("[^"]*"|-?[0-9.]+(?:[eE][-+]?[0-9]+)?|[\pL_][\pL\d_.]*)`
	sidePattern  = valuePattern + `(?:\s*([-+*/])\s*` + valuePattern + `)?`
)

var (
	condition = regexp.MustCompile(`^\s*` + sidePattern + `\s*(<=|>=|==|!=|=|<|>)\s*` + sidePattern + `\s*$`)
	withUnit  = regexp.MustCompile(`[0-9](%|[a-z]+)(\s|$)`)
)

// Parse reads a condition: FIELD COMPARISON LIMIT, such as "ttft_ms.p99 < 500". Both sides may calculate with two numbers
// or fields, by + - * /. The word "baseline" stands for the left side in the stage of the baseline. The fields are those
// of a stage, or those of a part if one is named.
func Parse(text, part string) (*Threshold, error) {
	fields := ofStage
	if part != "" {
		fields = ofPart
	}
	m := condition.FindStringSubmatch(text)
	switch {
	case m != nil:
	case withUnit.MatchString(text):
		return nil, errors.New("give numbers without a unit: they are in the unit of the field, and shares from 0 to 1")
	default:
		return nil, errors.New("want a field, a comparison (<, <=, >, >=, = or !=) and a limit, such as ttft_ms.p99 < 500 " +
			"or tpot_ms.mean <= baseline * 1.03; each condition is a threshold of its own")
	}
	t := &Threshold{part: part, compare: strings.Replace(m[4], "==", "=", 1)}
	t.left, t.right = fields.side(m[1:4]), fields.side(m[5:8])
	return t, t.check(fields)
}

// side is one side of a condition: a value, or two with an operator between them.
type side struct {
	operands []operand
	operator string
}

// operand is a number, a text, or a name: of a field, or else a text without quotes.
type operand struct {
	text   string // as it is written
	kind   kind
	number float64
	field  field
}

// kind is what an operand is.
type kind uint8

const (
	aNumber kind = iota
	aText        // in quotes
	aWord        // a name that is not a field: a text without quotes
	aField
	aBaseline // the left side of the condition, in the record of the baseline
)

// side returns what matches sidePattern.
func (n *names) side(m []string) side {
	s := side{operands: []operand{n.operand(m[0])}, operator: m[1]}
	if m[1] != "" {
		s.operands = append(s.operands, n.operand(m[2]))
	}
	return s
}

// operand returns what matches valuePattern.
func (n *names) operand(text string) operand {
	o := operand{text: text, kind: aWord}
	number, err := strconv.ParseFloat(text, 64)
	f, found := n.find(text)
	switch {
	case text[0] == '"':
		o.text, o.kind = strings.Trim(text, `"`), aText
	case err == nil:
		o.number, o.kind = number, aNumber
	case text == "baseline":
		o.kind = aBaseline
	case found:
		o.field, o.kind = f, aField
	}
	return o
}

// has reports whether an operand of the side is of one of some kinds.
func (s side) has(kinds ...kind) bool {
	return slices.ContainsFunc(s.operands, func(o operand) bool { return slices.Contains(kinds, o.kind) })
}

// check returns an error if the sides cannot be compared. It notes whether they are texts.
func (t *Threshold) check(fields *names) error {
	switch {
	case t.left.has(aBaseline):
		return errors.New("baseline stands for the left side, so it can only be on the right")
	case !t.left.has(aField, aWord):
		return errors.New("the left side has no field: write it first, such as ttft_ms.p99 < 500")
	}
	all := slices.Concat(t.left.operands, t.right.operands)
	i := slices.IndexFunc(all, func(o operand) bool { return o.field.isText })
	if i >= 0 {
		t.text = true
		return t.checkTexts(all[i], all)
	}
	for _, o := range all {
		switch o.kind {
		case aText:
			return fmt.Errorf("a number cannot be compared with the text %q", o.text)
		case aWord:
			return errors.New(fields.unknown(o.text))
		}
	}
	return nil
}

// checkTexts returns an error if a field of text cannot be compared with the other side.
func (t *Threshold) checkTexts(f operand, all []operand) error {
	if len(all) > 2 {
		return fmt.Errorf("%s is a text: it cannot be calculated with", f.text)
	}
	if t.compare != "=" && t.compare != "!=" {
		return fmt.Errorf("a text can only be compared by = or !=, got %s", t.compare)
	}
	for _, o := range all {
		choices := f.field.choices
		switch {
		case o.kind == aNumber || o.kind == aField && !o.field.isText:
			return fmt.Errorf("%s is a number: it cannot be compared with a text", o.text)
		case (o.kind == aWord || o.kind == aText) && choices != nil && !slices.Contains(choices, o.text):
			hint := ""
			if near := words.Nearest(o.text, choices); near != "" {
				hint = "; did you mean " + near + "?"
			}
			return fmt.Errorf("%s is one of %s, got %s%s", f.text, strings.Join(choices, ", "), o.text, hint)
		}
	}
	return nil
}

// unit returns the unit of a single field as it is put behind the number, or "".
func (s side) unit() string {
	name, _, _ := strings.Cut(s.operands[0].text, ".")
	switch {
	case len(s.operands) > 1 || s.operands[0].kind != aField:
		return ""
	case strings.HasSuffix(name, "_ms"):
		return " ms"
	case strings.HasSuffix(name, "_s"):
		return " s"
	}
	return ""
}

// value returns the value of the side, or why it is not known. base returns that of the word "baseline".
func (s side) value(r *record, base func() (value, string)) (v value, why string) {
	for i, o := range s.operands {
		one, why := o.value(r, base)
		switch {
		case why != "":
			return value{}, why
		case i == 0:
			v = one
			continue
		}
		a, b := v.number, one.number
		v.number = map[string]float64{"+": a + b, "-": a - b, "*": a * b, "/": a / b}[s.operator]
		if math.IsNaN(v.number) || math.IsInf(v.number, 0) {
			return value{}, fmt.Sprintf("%s %s %s is not a number", digits(a), s.operator, digits(b))
		}
	}
	return v, ""
}

// value returns the value, or why it is not known.
func (o operand) value(r *record, base func() (value, string)) (value, string) {
	switch o.kind {
	case aBaseline:
		return base()
	case aField:
		v, known := o.field.read(r)
		if !known {
			return value{}, o.text + " is not known"
		}
		return v, ""
	}
	return value{number: o.number, text: o.text}, ""
}
