package fleet

import (
	"strings"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// What is expected is read as a person types it, and mistakes are named.
func TestParseExpected(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "eu=2,us-1,us=1": "", "a,a": `"a": it is named twice`, "eu=1,eu=2": `"eu=2": it is named twice`,
		"eu=": `"eu=": want`, "eu=0": `"eu=0": want`, "=3": `"=3": want`, "\teu=1": `"\teu=1": want`, "a,,b": `"": want`,
		"eu=9000,us=9000": "18000 agents: want at most 10000", "eu=99999999999999999999": "want",
	} {
		var texts []string
		if text != "" {
			texts = strings.Split(text, ",")
		}
		if _, err := ParseExpected(texts); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Missing are the agents that were named, and as many of a region as it lacks. More than expected are not a problem.
func TestMissing(t *testing.T) {
	e, err := ParseExpected([]string{"us-2", "eu=3", "us=1", "asia=1", "us-1"})
	if err != nil {
		t.Fatal(err)
	}
	for present, want := range map[string]string{
		"":                                    "us-1 us-2 1 of 1 of region asia 3 of 3 of region eu 1 of 1 of region us",
		"eu-1@eu eu-2@eu us-1@us x@us":        "us-2 1 of 1 of region asia 1 of 3 of region eu",
		"a@eu b@eu c@eu d@eu e@asia f@":       "us-1 us-2 1 of 1 of region us",
		"a@eu b@eu c@eu us-1@us us-2@ e@asia": "",
	} {
		var agents []*spatev1.AgentInfo
		for text := range strings.FieldsSeq(present) {
			name, region, _ := strings.Cut(text, "@")
			agents = append(agents, &spatev1.AgentInfo{Name: name, Region: region})
		}
		if got := strings.Join(e.MissingWords(agents), " "); got != want {
			t.Errorf("%s: %q is missing, want %q", present, got, want)
		}
	}
	if got := (Expected{}).Missing(nil); len(got) > 0 {
		t.Errorf("%v is missing, and nothing is expected", got)
	}
}
