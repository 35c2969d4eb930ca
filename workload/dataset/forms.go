package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/rows"
)

// newBuilder returns the builder of a workload's form.
func newBuilder(w *spatev1.Workload, o Options, skipped *Skipped) (*builder, error) {
	number, _ := content.Of(w)
	b := &builder{
		header: rows.Header{Form: number, RecordSize: rows.LongRecord}, maxSkipped: defaultSkipped, skipped: skipped,
		openItems: func(s *itemSource) (itemReader, error) { return newElements(s.Reader) },
		end:       func() error { return nil },
	}
	form, ok := sources[number]
	if !ok {
		return nil, fmt.Errorf("workload %q does not use a file", w.GetName())
	}
	if file := content.File(w); file != nil && file.MaxSkipped != nil {
		b.maxSkipped = file.GetMaxSkipped()
	}
	if trace := content.Trace(w); trace != nil && trace.MaxSkipped != nil {
		b.maxSkipped = trace.GetMaxSkipped()
	}
	form.build(b, w, o)
	return b, nil
}

// rows makes the builder read items with a function that fills in a row.
func (b *builder) rows(parse func(text []byte, row *rows.Row) error) {
	b.parse = func(it item) error {
		b.row.Reset()
		if err := parse(it.Text, &b.row); err != nil {
			return err
		}
		return b.add(&b.row)
	}
}

// trace reads rows by a function, and adds them in the order of their times. If the first row has no time, none has
// one: such a trace cannot be replayed, but gives a load its requests.
func (b *builder) trace(parse func(item) (timedRow, error), fill func(timedRow, *rows.Row) error) {
	sorter, known := newTimeSorter(sorterBytes, "line"), false
	b.parse = func(it item) error {
		t, err := parse(it)
		if err != nil {
			return err
		}
		if !known && !t.untimed {
			b.flags |= rows.HasTimes
		}
		switch known = true; {
		case t.untimed && b.flags&rows.HasTimes != 0:
			return unusable("has no timestamp")
		case !t.untimed && b.flags&rows.HasTimes == 0:
			return unusable("has a timestamp, and the first row has none")
		}
		t.number, sorter.unit = it.Number, b.skipped.Unit
		return sorter.add(t)
	}
	sorter.emit = func(t timedRow, at time.Duration) error {
		b.row.Reset()
		at *= time.Duration(b.times.scale(b.skipped))
		b.row.At, b.row.ISL, b.row.OSL, b.row.Kind = at, t.isl, t.osl, t.kind
		if p := t.prompt; p != nil {
			b.row.Content, b.row.Insert = append(b.row.Content, p.content...), p.insert
			b.row.Fields = append(b.row.Fields, p.fields...)
		}
		if err := fill(t, &b.row); err != nil {
			return err
		}
		return b.add(&b.row)
	}
	b.end = func() error {
		b.skipped.Reordered = sorter.sorted
		return sorter.flush()
	}
}

// Unused counts the members of rows that no request uses, by name.
type Unused struct {
	counts map[string]uint64
	others uint64 // rows with names beyond maxUnused
}

// maxUnused is the maximum number of names that are kept: a file may have a new name in each row.
const maxUnused = 32

// note counts a member of a row.
func (u *Unused) note(name string) {
	if _, known := u.counts[name]; !known && len(u.counts) >= maxUnused {
		u.others++
		return
	}
	if u.counts == nil {
		u.counts = map[string]uint64{}
	}
	u.counts[strings.Clone(name)]++
}

// String lists the names, most frequent first. Empty: everything was used.
func (u *Unused) String() string {
	names := slices.SortedFunc(maps.Keys(u.counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(u.counts[b], u.counts[a]), strings.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%.64s (%d)", name, u.counts[name])
	}
	if u.others > 0 {
		names = append(names, fmt.Sprintf("others (%d)", u.others))
	}
	return strings.Join(names, ", ")
}

// Source is a form of file that workloads take their content from. A new source is a field of Workload.content in
// plan.proto, and a file of this package that registers it.
type Source struct {
	// Name is the name of the field in a plan.
	Name string
	// Help says in a few words what such a file has, and Example describes its text in a sentence.
	Help, Example string
	// build makes the builder read the workload's file.
	build func(b *builder, w *spatev1.Workload, o Options)
}

// sources are the sources by the number of their field in a workload, which identifies the form of a rows file.
var sources = map[uint32]Source{}

// register adds a source. It panics unless a workload has a field of its name that no other source has.
func register(name string, s Source) {
	fields := (*spatev1.Workload)(nil).ProtoReflect().Descriptor().Oneofs().ByName("content").Fields()
	field := fields.ByName(protoreflect.Name(name))
	if field == nil || sources[uint32(field.Number())].build != nil {
		panic(fmt.Sprintf("dataset: source %q is not a field of a workload, or registered twice", name))
	}
	s.Name = name
	sources[uint32(field.Number())] = s
}

// Sources returns the sources in the order of their fields.
func Sources() []Source {
	var all []Source
	for _, number := range slices.Sorted(maps.Keys(sources)) {
		all = append(all, sources[number])
	}
	return all
}
