package thresholds

import (
	"strings"
	"testing"
)

// TestMistakes: a condition that cannot be read says what is wrong, and what is probably meant.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"ttft_mss.p99 < 5":                 "did you mean ttft_ms.p99?",
		"2 * ttft.p99 < 5":                 "there is no field ttft.p99",
		"ttft_ms.p99 < tpot.mean":          "did you mean tpot_ms.mean?",
		"velocity > 3":                     "there are, among others, ttft_ms.p99",
		"ttft_ms < 5":                      "ttft_ms has several values: give one of ttft_ms.count, ttft_ms.max",
		"errors = 0":                       "such as errors.http_429",
		"regions = 3":                      "regions is a list: a threshold needs a value of a stage itself",
		"parts.chat.ttft_ms.p99 < 3":       "name one part in the threshold, such as {that: ttft_ms.p99 < 500, part: chat}",
		"verdict = VALD":                   "verdict is one of VALID, SUSPECT, INVALID, got VALD; did you mean VALID?",
		"complete = yes":                   "complete is one of true, false",
		"verdict <= VALID":                 "only be compared by = or !=",
		"verdict = 3":                      "3 is a number: it cannot be compared with a text",
		"verdict = ttft_ms.p99":            "ttft_ms.p99 is a number",
		"verdict + 1 < 3":                  "verdict is a text: it cannot be calculated with",
		`ttft_ms.p99 < "5"`:                "a number cannot be compared with the text",
		"goodput.share >= 95%":             "give numbers without a unit: they are in the unit of the field, and shares from 0 to 1",
		"ttft_ms.p99 < 500ms":              "without a unit",
		"ttft_ms.p99 < 5 and verdict = OK": "each condition is a threshold of its own",
		"1 < ttft_ms.p99 < 5":              "want a field, a comparison",
		"5 < ttft_ms.p99":                  "the left side has no field",
		"baseline < 3":                     "only be on the right",
		"ttft_ms.p99":                      "want a field, a comparison",
		"ttft_ms.p99 !< 3":                 "(<, <=, >, >=, = or !=)",
		"ttft_ms.p99 <":                    "want a field, a comparison",
		"(ttft_ms.p99 < 3":                 "want a field, a comparison",
		`model = "x`:                       "want a field, a comparison",
		"ttft_ms.p99 < 5 6":                "want a field, a comparison",
		strings.Repeat("(", 2000):          "want a field, a comparison",
		"":                                 "want a field, a comparison",
	} {
		if _, err := Parse(text, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestMistakesOfParts: the fields of a condition for a part are those of a part, not those of a stage.
func TestMistakesOfParts(t *testing.T) {
	for text, want := range map[string]string{
		"parts.chat.ttft_ms.p99 < 3": "names its part already: give the field alone, such as ttft_ms.p99",
		"verdict = VALID":            "a part has no field verdict, only the whole stage has: leave out part",
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

// FuzzParse: any text is a condition or a mistake, and a condition can be evaluated on a stage of which
// nothing is known.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"ttft_ms.p99 < 500", "requests.failed / requests.started <= baseline * 1.03", "verdict = VALID",
		"errors.http_429 == 0", `model != "a b"`, "((1", "a..b < 3", "1e999 > x",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := Parse(text, "")
		if err != nil {
			return
		}
		empty := recordOf(stage(), "")
		_ = parsed.holds(parsed.of(empty, baseline{record: empty}))
	})
}
