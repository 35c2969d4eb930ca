package workload

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/draw"
	"github.com/spate-load/spate/workload/rows"
)

// mixOf returns a mixture with the parts' weights in the order of the parts.
func mixOf(parts []*spatev1.Workload, weights ...float64) *spatev1.Workload {
	m := &spatev1.Mixture{}
	for i, w := range parts {
		m.Parts = append(m.Parts, &spatev1.Part{Weight: weights[i], Workload: w})
	}
	return &spatev1.Workload{Name: "mixed", Content: &spatev1.Workload_Mix{Mix: m}}
}

// Each part of a mixture sends what it would send as a workload of its own, request after request.
func TestPartsSendTheirOwnRequests(t *testing.T) {
	const source = `{"prompt": "one"}
{"prompt": "two", "tools": [1]}
{"messages": [{"role": "user", "content": "three"}], "tools": [3]}
`
	prefixed := &spatev1.Workload{Name: "prefixed", CacheBusting: "none", Content: &spatev1.Workload_Random{
		Random: &spatev1.RandomContent{Isl: 20, Osl: 4, Prefix: &spatev1.Prefix{Length: 8, Groups: 3}}}}
	talks := &spatev1.Workload{Name: "talks", Content: &spatev1.Workload_Sessions{
		Sessions: &spatev1.SessionContent{Turns: 2, Isl: 5, Osl: 3, Play: &spatev1.SessionPlay{History: "planned"}}}}
	file := jsonlOf(&spatev1.FileContent{Osl: 9})
	file.Name = "file"
	sonnet := sonnetOf(&spatev1.SonnetContent{Isl: 40, Osl: 5})
	sonnet.Name = "sonnet"
	const poem = "one line of a poem\nanother line\nand a third\n"
	lengths := []uint32{9, 8, 7}
	parts := []*spatev1.Workload{prefixed, talks, file, sonnet}
	c := Config{Workload: mixOf(parts, 5, 2, 2, 1), Seed: 11, Form: Messages, Run: "run-1-",
		PartRows:       []*rows.File{nil, nil, rowsOf(t, file, source, nil), rowsOf(t, sonnet, poem, nil)},
		PartLineTokens: [][]uint32{3: lengths}}
	mixed, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	var alone []Workload
	for _, part := range parts {
		of := Config{Workload: part, Seed: draw.Mix(c.Seed ^ draw.Hash("part", part.GetName())), Form: Messages}
		switch part {
		case file:
			of.Rows = rowsOf(t, file, source, nil)
		case sonnet:
			of.Rows, of.LineTokens = rowsOf(t, sonnet, poem, nil), lengths
		}
		w, err := New(of)
		if err != nil {
			t.Fatal(err)
		}
		alone = append(alone, w)
	}
	order, err := newMix(c.Seed, []float64{5, 2, 2, 1})
	if err != nil {
		t.Fatal(err)
	}
	for index := range uint64(100) {
		part, number := order.Of(index)
		turns := specOf(t, alone[part], number, 0).Turns
		for turn := range turns {
			want := specOf(t, alone[part], number, turn)
			got := specOf(t, mixed, index, turn)
			if got.Part != part {
				t.Errorf("arrival %d belongs to part %d, want %d", index, got.Part, part)
			}
			got.Part, got.Variant = 0, 0
			body, err := mixed.AppendPrompt(nil, Request{Index: index, Turn: turn, Form: Messages})
			if err != nil {
				t.Fatal(err)
			}
			wantBody, err := alone[part].AppendPrompt(nil, Request{Index: number, Turn: turn, Form: Messages})
			if err != nil || got != want || !bytes.Equal(body, wantBody) {
				t.Errorf("arrival %d, number %d of part %d: %+v %s, want %+v %s (%v)", index, number, part, got, body,
					want, wantBody, err)
			}
			if got.Fields != (part == 2 && bytes.Contains(fieldsOf(t, mixed, index), []byte("tools"))) {
				t.Errorf("arrival %d: fields %v: %s", index, got.Fields, fieldsOf(t, mixed, index))
			}
		}
		group, grouped, err := Group(mixed, index)
		wantGroup, wantGrouped, _ := Group(alone[part], number)
		if group != wantGroup || grouped != wantGrouped || err != nil {
			t.Errorf("arrival %d: group %d, %v (%v), want %d, %v", index, group, grouped, err, wantGroup, wantGrouped)
		}
	}
	if err := mixed.Close(); err != nil {
		t.Error(err)
	}
}

// fieldsOf returns an empty body with the fields of an arrival.
func fieldsOf(t *testing.T, w Workload, index uint64) []byte {
	t.Helper()
	s := specOf(t, w, index, 0)
	if !s.Fields {
		return nil
	}
	body, err := w.(Fielder).AppendFields([]byte(`{"messages":[]}`), index, 0)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// Requests of two parts never start with the same unique words.
func TestPartsMissCachesApart(t *testing.T) {
	var parts []*spatev1.Workload
	for _, name := range []string{"a", "b"} {
		parts = append(parts, &spatev1.Workload{Name: name, CacheBusting: "request", Content: &spatev1.Workload_Random{
			Random: &spatev1.RandomContent{Isl: 20, Osl: 4}}})
	}
	w, err := New(Config{Workload: mixOf(parts, 1, 1), Run: "run-1-"})
	if err != nil {
		t.Fatal(err)
	}
	var starts []string
	for index := range uint64(40) {
		starts = append(starts, string(prompt(t, w, nil, index, Text)[:24]))
	}
	slices.Sort(starts)
	if n := len(slices.Compact(starts)); n != 40 {
		t.Errorf("40 requests have %d different starts", n)
	}
}

// Models are drawn by Zipf's law, or all alike, and each request has the variant of its model.
func TestModelsOfParts(t *testing.T) {
	random := &spatev1.Workload{Name: "r", Content: &spatev1.Workload_Random{Random: &spatev1.RandomContent{Isl: 2, Osl: 2}}}
	other := &spatev1.Workload{Name: "s", Content: random.GetContent()}
	plan := mixOf([]*spatev1.Workload{random, other}, 1, 1)
	plan.GetMix().GetParts()[0].Model = "adapter"
	models := &spatev1.Models{Prefix: "m", Count: 4}
	plan.GetMix().GetParts()[1].Models = models
	const arrivals = 40_000
	for zipf, want := range map[float64][]float64{
		0: {0.25, 0.25, 0.25, 0.25},
		1: {0.48, 0.24, 0.16, 0.12}, // 1, 1/2, 1/3 and 1/4 of 25/12
	} {
		models.Zipf = zipf
		w, err := New(Config{Workload: plan, Seed: 5})
		if err != nil {
			t.Fatal(err)
		}
		variants, counts := content.Variants(plan), map[string]float64{}
		for index := range uint64(2 * arrivals) {
			s := specOf(t, w, index, 0)
			if variants[s.Variant].Part != s.Part {
				t.Fatalf("arrival %d of part %d has variant %d of part %d", index, s.Part, s.Variant,
					variants[s.Variant].Part)
			}
			counts[variants[s.Variant].Model]++
		}
		if counts["adapter"] != arrivals {
			t.Errorf("%v requests name the adapter", counts["adapter"])
		}
		for i, share := range want {
			name := fmt.Sprint("m", i)
			if got := counts[name] / arrivals; math.Abs(got-share) > 0.012 { // five standard deviations
				t.Errorf("zipf %v: model %s has the share %v, want %v", zipf, name, got, share)
			}
		}
	}
}

func TestMixturesRefused(t *testing.T) {
	random := &spatev1.Workload{Name: "r", Content: &spatev1.Workload_Random{Random: &spatev1.RandomContent{Isl: 2, Osl: 2}}}
	for name, c := range map[string]struct {
		w    *spatev1.Workload
		want string
	}{
		"weight":  {mixOf([]*spatev1.Workload{random, random}, 1, 0), "weight 2 is 0"},
		"content": {mixOf([]*spatev1.Workload{{Name: "empty"}}, 1), `part "empty"`},
		"rows":    {mixOf([]*spatev1.Workload{jsonlOf(&spatev1.FileContent{})}, 1), "has no rows"},
	} {
		if _, err := New(Config{Workload: c.w}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
