package rows

import (
	"encoding/binary"
	"time"
)

// Step is one request of a session whose requests may branch. Its content is with its row: see Row.OpenStep.
type Step struct {
	// Kind is what the step holds: Lengths, Text, Blocks, Messages or MessagesWithFields.
	Kind Kind
	// ISL, OSL and Shared are as in a row. The ISL is that of the step's own content, without a history.
	ISL, OSL, Shared uint32
	// After are the steps that must have ended before this one starts, all of them earlier ones.
	After []uint32
	// Delay is the time from the last of their ends to the start. Without any, it counts from the session's start.
	Delay time.Duration
	// At is the time since the session's start before which the step does not start. 0: none.
	At time.Duration
	// Previous is one more than the number of the step before it in the same conversation. 0: it begins one.
	Previous uint32
	// Continues reports whether the step's content is the next message behind the history of its conversation. If not,
	// it is the whole prompt.
	Continues bool

	// Content and fields are stored as the start that they have in common with those of the previous step, and the
	// rest.
	keep, keepFields uint64
	rest, restFields []byte
	insert           uint64
}

// SetContent sets the content of a step from a row of the step's kind. previous has the same of the step before it in
// the conversation; nil: the step begins one. The step keeps none of their memory.
func (s *Step) SetContent(row, previous *Row) {
	content, before := row.stored(), []byte(nil)
	var fields []byte
	if previous != nil {
		before, fields = previous.stored(), previous.Fields
	}
	s.Kind, s.insert = row.Kind, uint64(row.Insert)
	s.keep = common(content, before)
	s.rest = append([]byte(nil), content[s.keep:]...)
	s.keepFields = common(row.Fields, fields)
	s.restFields = append([]byte(nil), row.Fields[s.keepFields:]...)
}

// Size returns the approximate memory of a step in bytes.
func (s *Step) Size() int { return 192 + 4*cap(s.After) + cap(s.rest) + cap(s.restFields) }

// stored returns the content of a row that has no steps as bytes.
func (r *Row) stored() []byte {
	if r.Kind == Blocks {
		return appendBlocks(nil, r.Blocks)
	}
	return r.Content
}

// common returns the length of the start that two slices have in common.
func common(a, b []byte) uint64 {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return uint64(n)
}

// OpenStep makes a row of Steps hold what step n has: kind, lengths and content, as if the step were the row. The Steps
// remain, so that other steps can be opened next. It returns an error if the step's content does not match its kind.
func (r *Row) OpenStep(n int) error {
	s := &r.Steps[n]
	r.chain = r.chain[:0]
	for i := uint32(n + 1); i > 0; i = r.Steps[i-1].Previous {
		r.chain = append(r.chain, i-1)
	}
	r.text, r.fields = r.text[:0], r.fields[:0]
	for i := len(r.chain) - 1; i >= 0; i-- {
		p := &r.Steps[r.chain[i]]
		if p.keep > uint64(len(r.text)) || p.keepFields > uint64(len(r.fields)) {
			return errContent
		}
		r.text = append(r.text[:p.keep], p.rest...)
		r.fields = append(r.fields[:p.keepFields], p.restFields...)
	}
	r.Kind, r.ISL, r.OSL, r.Shared, r.Insert = s.Kind, s.ISL, s.OSL, s.Shared, int(s.insert)
	r.Content, r.Fields, r.Blocks = r.text, r.fields, r.Blocks[:0]
	if s.insert > uint64(len(r.text)) {
		return errContent
	}
	if s.Kind == Blocks {
		r.Content = nil
		return parseContent(r.text, r)
	}
	return nil
}

// appendSteps appends the steps of a session.
func appendSteps(dst []byte, steps []Step) []byte {
	for i := range steps {
		s := &steps[i]
		continues := uint64(0)
		if s.Continues {
			continues = 1
		}
		for _, v := range [...]uint64{uint64(s.Kind), uint64(s.ISL), uint64(s.OSL), uint64(s.Shared), uint64(s.Delay),
			uint64(s.At), uint64(s.Previous), continues, s.insert, s.keep, s.keepFields, uint64(len(s.After))} {
			dst = binary.AppendUvarint(dst, v)
		}
		for _, a := range s.After {
			dst = binary.AppendUvarint(dst, uint64(a))
		}
		dst = appendBytes(appendBytes(dst, s.rest), s.restFields)
	}
	return dst
}

// steps reads the steps of a session. It does not copy their content.
func (r *reader) steps(row *Row) {
	row.after = row.after[:0]
	for n := range row.TurnCount {
		s := Step{Kind: Kind(r.small()), ISL: r.small(), OSL: r.small(), Shared: r.small(), Delay: r.span(),
			At: r.span(), Previous: r.small(), Continues: r.number() == 1, insert: r.number(), keep: r.number(),
			keepFields: r.number()}
		from := len(row.after)
		for count := r.number(); count > 0 && !r.bad; count-- {
			a := r.small()
			r.bad = r.bad || a >= n
			row.after = append(row.after, a)
		}
		s.After = row.after[from:len(row.after):len(row.after)]
		s.rest, s.restFields = r.bytes(), r.bytes()
		if r.bad = r.bad || s.Previous > n || !s.Kind.ofStep(); r.bad {
			return
		}
		row.Steps = append(row.Steps, s)
	}
	r.bad = r.bad || len(row.Steps) == 0
}

// span reads a time that is not negative.
func (r *reader) span() time.Duration {
	v := r.number()
	r.bad = r.bad || v > 1<<63-1
	return time.Duration(v)
}

// ofStep reports whether a step can be of the kind.
func (k Kind) ofStep() bool {
	switch k {
	case Lengths, Text, Blocks, Messages, MessagesWithFields:
		return true
	case TokenIDs, Session, Steps, kinds:
	}
	return false
}
