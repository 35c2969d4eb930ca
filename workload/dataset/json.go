package dataset

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spate-load/spate/api/jsonscan"
	"github.com/spate-load/spate/workload/rows"
)

// Rows in JSON are read in two steps. encoding/json checks that the text is valid JSON. The functions below then walk
// the text, relying on its validity, and build no values that are not needed. Text stays escaped, because it is sent in
// the same form.

// checkObject returns an error unless a text is one JSON object in UTF-8.
func checkObject(text []byte) error {
	text = bytes.TrimSpace(text)
	switch {
	case !json.Valid(text):
		return unusable("is not JSON")
	case text[0] != '{':
		return unusable("is %s, not an object", typeOf(text))
	case !utf8.Valid(text):
		return unusable("is not UTF-8")
	}
	return nil
}

// anyDepth is at which nesting depth values start here: json.Valid takes values that nest 10,000 deep.
const anyDepth = -10_000

// members yields the names and raw values of a valid object.
func members(object []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		c := jsonscan.Cursor{B: object}
		c.Eat('{')
		for n := 0; c.More(n, '}'); n++ {
			name, _ := c.Text()
			c.Eat(':')
			if !yield(string(name), c.Skip(anyDepth)) {
				return
			}
		}
	}
}

// values yields the raw elements of a valid array.
func values(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		c := jsonscan.Cursor{B: array}
		c.Eat('[')
		for n := 0; c.More(n, ']'); n++ {
			if !yield(c.Skip(anyDepth)) {
				return
			}
		}
	}
}

// typeOf names the type of a valid value.
func typeOf(value []byte) string {
	return cmp.Or(map[byte]string{'"': "a string", '{': "an object", '[': "an array", 't': "a boolean", 'f': "a boolean",
		'n': "null"}[value[0]], "a number")
}

// stringInside returns what stands between the quotes of a string. It returns an error if the value is not a string.
func stringInside(name string, value []byte) ([]byte, error) {
	if value[0] != '"' {
		return nil, unusable("%s is %s, not a string", name, typeOf(value))
	}
	return value[1 : len(value)-1], nil
}

// unescape returns the text of the inside of a valid JSON string.
func unescape(inside []byte) string {
	var text string
	quoted := append(append([]byte{'"'}, inside...), '"')
	if json.Unmarshal(quoted, &text) != nil {
		return string(inside)
	}
	return text
}

// maxLength is the maximum length in tokens. It is also the most that a plan may ask for.
const maxLength = 1 << 24

// parseLength reads a number of tokens. It accepts a fraction of zero (as in 12.0), which tables often have.
func parseLength(name string, value []byte) (uint32, error) {
	if n, err := strconv.ParseUint(string(value), 10, 32); err == nil && n <= maxLength {
		return uint32(n), nil
	}
	f, err := parseNumber(name, value)
	switch {
	case err != nil:
		return 0, err
	case f < 0:
		return 0, unusable("%s is %s: it must not be negative", name, value)
	case f > maxLength:
		return 0, unusable("%s is %s: it must be at most %d", name, value, maxLength)
	case f != math.Trunc(f):
		return 0, unusable("%s is %s: it must be a whole number", name, value)
	}
	return uint32(f), nil
}

// parseNumber reads a finite number.
func parseNumber(name string, value []byte) (float64, error) {
	if len(value) > 64 {
		return 0, unusable("%s is %.20q..., not a number", name, value)
	}
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) || value[0] == '+' || bytes.ContainsAny(value, "xX_") {
		if text, ok := strings.CutPrefix(string(value), `"`); ok && json.Valid(value) {
			return 0, unusable(`%s is "%s, not a number`, name, text) // it is quoted already
		}
		return 0, unusable("%s is %q, not a number", name, value)
	}
	return f, nil
}

// maxTime is the largest absolute time of a trace, in nanoseconds. Larger times do not fit into 64 bits.
const maxTime = 9.2e18

// parseTime reads a time that is given in units of unit nanoseconds.
func parseTime(name string, value []byte, unit float64) (int64, error) {
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil && math.Abs(float64(n))*unit < maxTime {
		return n * int64(unit), nil
	}
	f, err := parseNumber(name, value)
	if err != nil {
		return 0, err
	}
	if math.Abs(f)*unit >= maxTime {
		return 0, unusable("%s is %s: it must be between -%.3g and %.3g", name, value, maxTime/unit, maxTime/unit)
	}
	return int64(math.Round(f * unit)), nil
}

// unusableError says why a row is skipped.
type unusableError struct {
	reason   string
	excluded bool // by the rules of the form, not because of a fault
}

func (u *unusableError) Error() string { return u.reason }

// unusable returns the error for a faulty row.
func unusable(format string, args ...any) error {
	return &unusableError{reason: fmt.Sprintf(format, args...)}
}

// exclude returns the error for a valid row that is not used.
func exclude(reason string) error { return &unusableError{reason: reason, excluded: true} }

// object is a row, or an object in one, that is read by the names of its members. Their values are raw. Take removes
// what is used, so that the rest is what no request uses.
type object map[string][]byte

// readObject returns the members of an item, or an error unless it is a JSON object.
func readObject(text []byte) (object, error) {
	if err := checkObject(text); err != nil {
		return nil, err
	}
	return maps.Collect(members(text)), nil
}

// objects returns a function that reads items which are JSON objects.
func objects(read func(o object, row *rows.Row) error) func(text []byte, row *rows.Row) error {
	return func(text []byte, row *rows.Row) error {
		o, err := readObject(text)
		if err != nil {
			return err
		}
		return read(o, row)
	}
}

// objectIn returns the members of a valid value. Nil: the value is not an object, or absent.
func objectIn(value []byte) object {
	if len(value) == 0 || value[0] != '{' {
		return nil
	}
	return maps.Collect(members(value))
}

// take returns the first of the members that is there and not null, or nil, and removes it and those that are null.
func (o object) take(names ...string) []byte {
	for _, name := range names {
		value, there := o[name]
		if !there {
			continue
		}
		delete(o, name)
		if value[0] != 'n' {
			return value
		}
	}
	return nil
}

// text takes the inside of a string. It returns nil if the member is absent, and an error if it is not a string.
func (o object) text(name string) ([]byte, error) {
	value, there := o[name]
	if !there {
		return nil, nil
	}
	delete(o, name)
	return stringInside(name, value)
}

// fields takes the fields that are sent beside messages, as members of an object without its braces.
func (o object) fields() []byte {
	var text []byte
	for _, name := range rows.FieldNames {
		if value := o.take(name); value != nil {
			text = append(append(append(append(text, `,"`...), name...), `":`...), compact(value)...)
		}
	}
	return text[min(1, len(text)):]
}

// rest counts the members that nothing took. Members of used names are unused because of another member.
func (o object) rest(unused *Unused, beside string, used ...string) {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if beside != "" && slices.Contains(used, name) {
			name += " beside " + beside
		}
		unused.note(name)
	}
}

// compact returns a valid value without the white space around and between its parts.
func compact(value []byte) []byte {
	var out bytes.Buffer
	_ = json.Compact(&out, value) // it is valid
	return out.Bytes()
}
