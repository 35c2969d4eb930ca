package workload

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// textsIn returns the texts of a request, each as its tokens.
func textsIn(t *testing.T, w Workload, index uint64, form Form) (texts [][]string) {
	t.Helper()
	body, err := w.AppendPrompt(nil, Request{Index: index, Form: form})
	if err != nil {
		t.Fatal(err)
	}
	if form == TokenIDs {
		var lists [][]json.Number
		if err := json.Unmarshal(body, &lists); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		for _, list := range lists {
			texts = append(texts, strings.Fields(strings.Trim(fmt.Sprint(list), "[]")))
		}
		return texts
	}
	var list []string
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, text := range list {
		texts = append(texts, strings.Fields(text))
	}
	return texts
}

// TestTexts: a request has as many texts as its number says, each of a length of its own and of other tokens. Spec has
// the number, and the tokens of all of them.
func TestTexts(t *testing.T) {
	plan := withContent(&spatev1.RandomContent{IslLengths: uniformOf(20, 40), Osl: 1, TextCounts: uniformOf(1, 9)})
	for _, form := range []Form{Text, TokenIDs} {
		const template = 2
		w := newWorkload(t, Config{Workload: plan, Seed: 5, Template: template})
		counts, lengths, seen := make(map[int]bool), make(map[int]bool), make(map[string]bool)
		for i := range uint64(60) {
			texts := textsIn(t, w, i, form)
			tokens := 0
			for _, text := range texts {
				tokens += len(text) + template
				lengths[len(text)+template] = true
				start := strings.Join(text[:8], " ")
				if seen[start] {
					t.Errorf("request %d has a text that starts as another: %s", i, start)
				}
				seen[start] = true
			}
			counts[len(texts)] = true
			if s, err := w.Spec(i, 0); err != nil || int(s.Texts) != len(texts) || int(s.ISL) != tokens {
				t.Errorf("request %d has %d texts of %d tokens, Spec says %+v (%v)", i, len(texts), tokens, s, err)
			}
		}
		if len(counts) != 9 || len(lengths) != 21 {
			t.Errorf("numbers of texts %v, lengths %v: want 9 and 21 different ones", counts, lengths)
		}
	}
	one := newWorkload(t, Config{Workload: withContent(&spatev1.RandomContent{Isl: 20, Osl: 1})})
	if s, err := one.Spec(0, 0); err != nil || s.Texts != 0 {
		t.Errorf("a prompt is %d texts (%v), want none", s.Texts, err)
	}
}

// TestUniqueTexts: with cache busting, the start of each text differs from run to run; all else is the same.
func TestUniqueTexts(t *testing.T) {
	plan := withContent(&spatev1.RandomContent{Isl: 30, Osl: 1, Texts: 4})
	plan.CacheBusting = "request"
	var runs [2][][]string
	for i, run := range []string{"a", "b"} {
		runs[i] = textsIn(t, newWorkload(t, Config{Workload: plan, Run: run}), 7, Text)
	}
	for k, text := range runs[0] {
		other := runs[1][k]
		if len(text) != 30 || strings.Join(text[:4], " ") == strings.Join(other[:4], " ") || text[29] != other[29] {
			t.Errorf("text %d: %q and %q", k, text, other)
		}
	}
}
