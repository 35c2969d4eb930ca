package dataset

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/spate-load/spate/workload/rows"
)

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
