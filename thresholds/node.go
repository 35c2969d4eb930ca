package thresholds

import (
	"fmt"
	"math"
	"strconv"
)

// evaluation is what a condition is evaluated on.
type evaluation struct {
	record *record
	// base returns the value of the word "baseline", or why it is not known.
	base func() (value, string)
}

// node is a part of a condition.
type node interface {
	// value returns the value, or why it is not known.
	value(e evaluation) (value, string)
	usesBaseline() bool
}

// number is written in the condition.
type number float64

func (n number) value(evaluation) (value, string) { return value{number: float64(n)}, "" }
func (n number) usesBaseline() bool               { return false }

// word is a name that is not a field, or a text in quotes: after the check of types it is a text.
type word struct {
	text   string
	column int
	quoted bool
}

func (w word) value(evaluation) (value, string) { return value{text: w.text}, "" }
func (w word) usesBaseline() bool               { return false }

// fieldNode is a field of the record.
type fieldNode struct {
	field

	name   string
	column int
}

func (f fieldNode) value(e evaluation) (value, string) {
	v, known := f.read(e.record)
	if !known {
		return value{}, f.name + " is not known"
	}
	return v, ""
}

func (f fieldNode) usesBaseline() bool { return false }

// baselineNode is the left side of the condition, in the record of the baseline. It is never on the left side itself.
type baselineNode struct{}

func (baselineNode) value(e evaluation) (value, string) { return e.base() }

func (baselineNode) usesBaseline() bool { return true }

// node returns what a name stands for.
func (n *names) node(name string, column int) node {
	if name == "baseline" {
		return baselineNode{}
	}
	if f, found := n.find(name); found {
		return fieldNode{f, name, column}
	}
	return word{text: name, column: column}
}

// operation is + - * or / between two numbers.
type operation struct {
	op          rune
	left, right node
}

func (o operation) value(e evaluation) (value, string) {
	left, why := o.left.value(e)
	if why != "" {
		return value{}, why
	}
	right, why := o.right.value(e)
	if why != "" {
		return value{}, why
	}
	a, b := left.number, right.number
	switch o.op {
	case '+':
		a += b
	case '-':
		a -= b
	case '*':
		a *= b
	default:
		a /= b
	}
	if math.IsNaN(a) || math.IsInf(a, 0) {
		return value{}, fmt.Sprintf("%s %c %s is not a number", digits(left.number), o.op, digits(b))
	}
	return value{number: a}, ""
}

func (o operation) usesBaseline() bool { return o.left.usesBaseline() || o.right.usesBaseline() }

// digits formats a number with six significant digits, or all digits before the point if there are more.
func digits(v float64) string {
	if math.Abs(v) >= 1e5 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}
