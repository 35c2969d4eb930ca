package thresholds

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestMistakes: a condition that cannot be read says where it is wrong, and what is probably meant.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]struct {
		column  int
		message string
	}{
		"ttft_mss.p99 < 5":                 {1, "did you mean ttft_ms.p99?"},
		"2 * ttft.p99 < 5":                 {5, "there is no field ttft.p99"},
		"ttft_ms.p99 < tpot.mean":          {15, "did you mean tpot_ms.mean?"},
		"velocity > 3":                     {1, "there are, among others, ttft_ms.p99"},
		"ttft_ms < 5":                      {1, "ttft_ms has several values: give one of ttft_ms.count, ttft_ms.max"},
		"errors = 0":                       {1, "such as errors.http_429"},
		"regions = 3":                      {1, "regions is a list: a threshold needs a value of a stage itself"},
		"parts.chat.ttft_ms.p99 < 3":       {1, "name one part in the threshold, such as {that: ttft_ms.p99 < 500, part: chat}"},
		"verdict = VALD":                   {11, "verdict is one of VALID, SUSPECT, INVALID, got VALD; did you mean VALID?"},
		"complete = yes":                   {12, "complete is one of true, false"},
		"verdict <= VALID":                 {1, "only be compared by = or !="},
		"verdict = 3":                      {1, "a text cannot be compared with a number"},
		"verdict = ttft_ms.p99":            {11, "ttft_ms.p99 is a number"},
		"verdict + 1 < 3":                  {1, "verdict is a text: it cannot be calculated with"},
		`ttft_ms.p99 < "5"`:                {15, "a number cannot be compared with the text"},
		"goodput.share >= 95%":             {20 - 2, "such as 0.95 instead of 95%"},
		"ttft_ms.p99 < 500ms":              {15, "without a unit"},
		"ttft_ms.p99 < 5 and verdict = OK": {17, "give a threshold for each"},
		"1 < ttft_ms.p99 < 5":              {17, "one comparison"},
		"5 < ttft_ms.p99":                  {1, "the left side has no field"},
		"baseline < 3":                     {1, "only be on the right"},
		"ttft_ms.p99":                      {12, "a comparison is missing"},
		"ttft_ms.p99 !< 3":                 {14, "want <, <=, >, >=, = or !="},
		"ttft_ms.p99 <":                    {14, "a field or a number is missing"},
		"(ttft_ms.p99 < 3":                 {14, "a closing bracket is missing"},
		`model = "x`:                       {9, "does not end"},
		"ttft_ms.p99 < 1e":                 {15, "is not a number"},
		"ttft_ms.p99 < 5 6":                {17, "expected the end of the condition, got 6"},
		strings.Repeat("(", 2000):          {1, "at most 1000 characters"},
		"":                                 {1, "is missing"},
	} {
		_, err := Parse(text, "")
		var m *Mistake
		if !errors.As(err, &m) {
			t.Errorf("%s: no mistake, %v", text, err)
		} else if m.Column != want.column || !strings.Contains(m.Message, want.message) {
			t.Errorf("%s: at %d: %s", text, m.Column, m.Message)
		}
	}
}

// TestMistakesOfParts: the fields of a condition for a part are those of a part, not those of a stage.
func TestMistakesOfParts(t *testing.T) {
	for text, want := range map[string]string{
		"parts.chat.ttft_ms.p99 < 3": "names its part already: give the field alone, such as ttft_ms.p99",
		"verdict = VALID":            "a part has no field verdict, only the whole stage has: leave out part (at character 1)",
		"isl_tokens.seen.p50 > 1":    "a part has no field isl_tokens.seen.p50, only the whole",
		"ttft_mss.p99 < 5":           "there is no field ttft_mss.p99 in a part of results.json; did you mean ttft_ms.p99?",
		"errors = 0":                 "such as errors.http_429",
	} {
		if _, err := Parse(text, "chat"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{"isl_tokens.p50 > 1", "tools.valid_share = 1", "errors.http_429 = 0", "images.count > 0"} {
		if _, err := Parse(text, "chat"); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzParse: any text is a condition or has a mistake within it, and a condition can be evaluated on a stage of which
// nothing is known.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"ttft_ms.p99 < 500", "requests.failed / requests.started <= baseline * 1.03 + (2 - -1)", "verdict = VALID",
		"errors.http_429 == 0", `model != "a b"`, "((1", "a..b < 3", "1e999 > x",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := Parse(text, "")
		if err != nil {
			var m *Mistake
			if !errors.As(err, &m) || m.Column < 1 || m.Column > utf8.RuneCountInString(text)+1 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		empty := recordOf(stage(), "")
		_ = parsed.holds(parsed.of(empty, baseline{record: empty}))
	})
}
