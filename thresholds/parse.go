package thresholds

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/scanner"
	"unicode"
	"unicode/utf8"

	"github.com/spate-load/spate/internal/words"
)

// maxLength bounds a condition, so that a parser that calls itself for each bracket cannot run out of stack.
const maxLength = 1000

// Parse reads a condition: FIELD COMPARISON LIMIT, such as "ttft_ms.p99 < 500". Both sides may calculate with numbers,
// fields, + - * / and brackets. The word "baseline" stands for the left side in the stage of the baseline. The fields are
// those of a stage, or those of a part if one is named. The error is a *Mistake.
func Parse(text, part string) (*Threshold, error) {
	if n := utf8.RuneCountInString(text); n > maxLength {
		return nil, &Mistake{1, fmt.Sprintf("a condition has at most %d characters, got %d", maxLength, n)}
	}
	p := newParser(text)
	if part != "" {
		p.names = ofPart
	}
	t := &Threshold{part: part, left: p.sum()}
	t.compare = p.comparison()
	t.right = p.sum()
	if p.kind != scanner.EOF {
		p.fail("%s", p.afterEnd())
	}
	if p.mistake == nil {
		p.sides(t)
		p.types(t)
	}
	if p.mistake != nil {
		return nil, p.mistake
	}
	return t, nil
}

// parser reads a condition by recursive descent. After the first mistake it reads nothing more.
type parser struct {
	scanner.Scanner

	names   *names // Of the record.
	kind    rune   // Of the token at hand.
	token   string // Its text.
	mistake *Mistake
}

func newParser(text string) *parser {
	p := &parser{names: ofStage}
	p.Init(strings.NewReader(text))
	p.Mode = scanner.ScanIdents | scanner.ScanFloats | scanner.ScanStrings
	p.Error = func(*scanner.Scanner, string) {} // The token at hand says where it is.
	p.IsIdentRune = func(ch rune, i int) bool {
		return ch == '_' || unicode.IsLetter(ch) || i > 0 && (ch == '.' || unicode.IsDigit(ch))
	}
	p.next()
	return p
}

// next reads a token.
func (p *parser) next() {
	p.kind = p.Scan()
	p.token = p.TokenText()
}

// fail records the first mistake, at the token at hand, and ends the reading.
func (p *parser) fail(format string, args ...any) { p.failAt(p.Column, format, args...) }

func (p *parser) failAt(column int, format string, args ...any) {
	if p.mistake == nil {
		p.mistake = &Mistake{max(1, column), fmt.Sprintf(format, args...)}
	}
	p.kind = scanner.EOF
}

// take reads the next token if the one at hand is one of the given characters. It returns that character, or 0.
func (p *parser) take(characters ...rune) rune {
	if !slices.Contains(characters, p.kind) {
		return 0
	}
	taken := p.kind
	p.next()
	return taken
}

// operators by how strongly they bind, the weakest first.
var operators = [][]rune{{'+', '-'}, {'*', '/'}}

// sum reads values with operators between them.
func (p *parser) sum() *node { return p.operations(0) }

// operations reads values with operators between them that bind as strongly as those of a level, or more.
func (p *parser) operations(level int) *node {
	if level == len(operators) {
		return p.value()
	}
	left := p.operations(level + 1)
	for op := p.take(operators[level]...); op != 0; op = p.take(operators[level]...) {
		left = &node{kind: op, left: left, right: p.operations(level + 1)}
	}
	return left
}

// value reads a number, a name, a text, or a sum in brackets.
func (p *parser) value() *node {
	column, token := p.Column, p.token
	switch p.kind {
	case '-':
		p.next()
		return &node{kind: '-', left: &node{}, right: p.value()}
	case '(':
		p.next()
		inner := p.sum()
		if p.take(')') == 0 {
			p.fail("a closing bracket is missing")
		}
		return inner
	case scanner.Int, scanner.Float:
		return p.number(token)
	case scanner.String:
		p.next()
		text, err := strconv.Unquote(token)
		if err != nil {
			p.failAt(column, "the text %s does not end: close its quotes", token)
		}
		return &node{kind: aWord, text: text, column: column, quoted: true}
	case scanner.Ident:
		p.next()
		return p.names.node(token, column)
	case scanner.EOF:
		p.fail("a field or a number is missing")
	default:
		p.fail("expected a field or a number, got %s", token)
	}
	return &node{}
}

// number reads a number. A unit or a percent sign behind it is a mistake.
func (p *parser) number(token string) *node {
	n, err := strconv.ParseFloat(token, 64)
	if err != nil {
		p.fail("%s is not a number", token)
		return &node{}
	}
	column := p.Column
	p.next()
	switch {
	case p.kind == '%':
		p.failAt(column, "give a share as a number from 0 to 1, such as %s instead of %s%%", digits(n/100), token)
	case p.kind == scanner.Ident && p.Column == column+len(token):
		p.failAt(column, "give the number without a unit: it is in the unit of the field, got %s%s", token, p.token)
	}
	return &node{number: n}
}

// comparison reads "<", "<=", ">", ">=", "=", "==" or "!=".
func (p *parser) comparison() string {
	first := p.take('<', '>', '=', '!')
	second := first != 0 && p.take('=') != 0
	switch {
	case first == '=':
		return "="
	case first == '!' && second:
		return "!="
	case first == '<' || first == '>':
		return string(first) + map[bool]string{true: "="}[second]
	}
	p.fail("%s", cmp.Or(p.unexpected(), "a comparison is missing")+
		": want <, <=, >, >=, = or != and a limit, such as ttft_ms.p99 < 500")
	return ""
}

// unexpected names the token at hand, or returns "" at the end.
func (p *parser) unexpected() string {
	if p.kind == scanner.EOF {
		return ""
	}
	return "expected a comparison, got " + p.token
}

// afterEnd says what is wrong with text after a complete condition.
func (p *parser) afterEnd() string {
	switch strings.ToLower(p.token) {
	case "and", "or", "&", "|":
		return "a condition is one comparison: give a threshold for each"
	case "<", ">", "=", "!":
		return "a condition has one comparison, got a second one"
	}
	return "expected the end of the condition, got " + p.token
}

// sides checks that the left side has the field, and the word baseline is on the right.
func (p *parser) sides(t *Threshold) {
	switch {
	case t.left.usesBaseline():
		p.failAt(1, "baseline stands for the left side, so it can only be on the right")
	case !t.left.any(hasName):
		p.failAt(1, "the left side has no field: write it first, such as ttft_ms.p99 < 500")
	}
}

// hasName reports whether a node is a field, or a name that is perhaps meant to be one.
func hasName(n *node) bool { return n.kind == aField || n.kind == aWord && !n.quoted }

// types checks that both sides can be compared, and makes words into texts where the other side is a text.
func (p *parser) types(t *Threshold) {
	t.text = isTextNode(t.left) || isTextNode(t.right)
	if !t.text {
		t.left.any(p.noText)
		t.right.any(p.noText)
		return
	}
	p.texts(t.left, t.right)
	p.texts(t.right, t.left)
	if t.compare != "=" && t.compare != "!=" {
		p.failAt(1, "a text can only be compared by = or !=, got %s", t.compare)
	}
}

// isTextNode reports whether a side is a field of text.
func isTextNode(n *node) bool { return n.kind == aField && n.field.isText }

// noText checks that a node in a condition on numbers is not a text. It always returns false, so that others are
// checked, too.
func (p *parser) noText(n *node) bool {
	switch {
	case n.kind == aWord && n.quoted:
		p.failAt(n.column, "a number cannot be compared with the text %q", n.text)
	case n.kind == aWord:
		p.failAt(n.column, "%s", p.names.unknown(n.text))
	case isTextNode(n):
		p.failAt(n.column, "%s is a text: it cannot be calculated with", n.text)
	}
	return false
}

// texts checks that one side of a comparison is a text that the other can have.
func (p *parser) texts(n, other *node) {
	switch choices := other.field.choices; n.kind {
	case aBaseline:
	case aField:
		if !n.field.isText {
			p.failAt(n.column, "%s is a number: it cannot be compared with a text", n.text)
		}
	case aWord:
		if choices == nil || slices.Contains(choices, n.text) {
			return
		}
		hint := ""
		if near := words.Nearest(n.text, choices); near != "" {
			hint = "; did you mean " + near + "?"
		}
		p.failAt(n.column, "%s is one of %s, got %s%s", other.text, strings.Join(choices, ", "), n.text, hint)
	default:
		p.failAt(1, "a text cannot be compared with a number, or calculated with")
	}
}
