package jsonschema

import (
	"bytes"
	"encoding/json"
)

// object is a JSON object whose members keep their order, because people read the schema, too.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON writes the members in their order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b) // The line break that it adds after each value does no harm.
	encoder.SetEscapeHTML(false)
	for i, m := range o {
		b.WriteByte("{,"[min(i, 1)])
		if err := encoder.Encode(m.name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := encoder.Encode(m.value); err != nil {
			return nil, err
		}
	}
	if len(o) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// last keeps only the last of several members with the same name, at the place of the first.
func (o object) last() object {
	var kept object
	place := make(map[string]int)
	for _, m := range o {
		if i, again := place[m.name]; again {
			kept[i] = m
			continue
		}
		place[m.name] = len(kept)
		kept = append(kept, m)
	}
	return kept
}
