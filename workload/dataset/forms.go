package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/rows"
)

// newBuilder returns the builder of a workload's form.
func newBuilder(w *spatev1.Workload, o Options, skipped *Skipped) (*builder, error) {
	number, _ := content.Of(w)
	b := &builder{
		header: rows.Header{Form: number, RecordSize: rows.LongRecord}, maxSkipped: defaultSkipped, skipped: skipped,
		end: func() error { return nil },
	}
	b.openItems = func(s *itemSource) (itemReader, error) {
		if detect(s) == "parquet" {
			return newParquetRows(s.Raw, b.maxBytes)
		}
		return newElements(s.Reader)
	}
	form := slices.IndexFunc(Sources, func(s Source) bool { return s.Name == content.Kind(w) })
	if form < 0 {
		return nil, fmt.Errorf("workload %q does not use a file", w.GetName())
	}
	if file := content.File(w); file != nil && file.MaxSkipped != nil {
		b.maxSkipped = file.GetMaxSkipped()
	}
	if trace := content.Trace(w); trace != nil && trace.MaxSkipped != nil {
		b.maxSkipped = trace.GetMaxSkipped()
	}
	Sources[form].build(b, w, o)
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
// plan.proto, and one of Sources.
type Source struct {
	// Name is the name of the field in a plan.
	Name string
	// Help says in a few words what such a file has, and Example describes its text in a sentence.
	Help, Example string
	// build makes the builder read the workload's file.
	build func(b *builder, w *spatev1.Workload, o Options)
}

// Sources are the sources in the order of their fields.
var Sources = []Source{
	{"sonnet", "lines of a text file, as vLLM's sonnet dataset", "Any text.",
		func(b *builder, w *spatev1.Workload, o Options) { b.sonnet(w.GetSonnet(), o) }},
	{"sharegpt", "conversations of a ShareGPT JSON file", "ShareGPT JSON, plain or compressed.",
		func(b *builder, w *spatev1.Workload, o Options) {
			b.rows(objects(newReader(b, content.File(w), o).conversation))
		}},
	{"jsonl", "prompts, messages or token ids of a JSONL file", `Lines such as {"prompt": "...", "osl": 100}.`,
		func(b *builder, w *spatev1.Workload, o Options) {
			b.rows(objects(newReader(b, content.File(w), o).read))
		}},
	{"mooncake", "a trace in Mooncake's form, with its common prefixes",
		"Lines with timestamp, input_length, output_length, hash_ids.",
		func(b *builder, w *spatev1.Workload, o Options) { b.blocks(content.Trace(w), mooncakeForm, o) }},
	// Rows without an answer are failed requests and are left out. Later releases have more columns.
	{"burstgpt", "a trace in BurstGPT's form", "CSV of BurstGPT.",
		func(b *builder, _ *spatev1.Workload, _ Options) {
			b.table("BurstGPT", []string{"Timestamp", "Request tokens", "Response tokens"},
				func(name string, value []byte) (int64, error) { return parseTime(name, value, 1e9) })
		}},
	// Times are those of 2023 (2023-11-16 18:15:46.6805900) or of 2024 (2024-05-10 00:00:00.009930+00:00).
	{"azure", "a trace in the form of the Azure LLM inference traces",
		"CSV with TIMESTAMP, ContextTokens, GeneratedTokens.",
		func(b *builder, _ *spatev1.Workload, _ Options) {
			b.table("Azure", []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}, parseDateTime)
		}},
	{"bailian", "a trace in the form of the Qwen traces of Bailian",
		"Lines with chat_id, timestamp, input_length, output_length, hash_ids.",
		func(b *builder, w *spatev1.Workload, o Options) { b.blocks(content.Trace(w), bailianForm, o) }},
	{"file", "prompts of a file or folder: JSON of several forms, CSV, Parquet, text",
		"JSON (Alpaca, SpecBench, ShareGPT, prompts, messages), CSV, Parquet or text.", (*builder).anyFile},
	{"otel", "spans of OpenTelemetry's conventions for GenAI, as OTLP JSON",
		"OTLP JSON, a file or lines, with the attributes gen_ai.*.",
		func(b *builder, w *spatev1.Workload, o Options) {
			b.openItems = newSpans
			b.recorded(content.Trace(w), (&spanReader{requests: newRecordedRequests(b, o)}).read)
		}},
	{"openai_log", "a log of chats with OpenAI's API: messages, usage and times",
		"Lines with request, response and timestamp.",
		func(b *builder, w *spatev1.Workload, o Options) {
			b.recorded(content.Trace(w), (&logReader{requests: newRecordedRequests(b, o)}).read)
		}},
}
