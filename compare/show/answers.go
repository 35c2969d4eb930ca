package show

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/words"
)

// answerName names an answer among those of its target and workload.
func answerName(a *compare.Answer) string {
	name := strings.ReplaceAll(string(a.Kind), "_", " ")
	switch {
	case a.Latency != "":
		name += ": req/s / " + a.Latency
	case a.Objectives != "":
		name += ": " + a.Objectives
	}
	if a.Part != "" {
		name += ", part " + a.Part
	}
	return words.Printable(name)
}

// AnswerTitle names an answer among all.
func AnswerTitle(a *compare.Answer) string {
	return answerGrid(a) + ", " + answerName(a)
}

// foundAt says at which load an answer was found, or which load was too high.
func foundAt(a *compare.Answer, runs []compare.Found) string {
	var loads []float64
	for _, f := range runs {
		switch {
		case a.Kind != compare.HighestLoad:
			loads = append(loads, f.Load)
		case f.Broke == nil:
			return "none too high"
		default:
			loads = append(loads, *f.Broke)
		}
	}
	least, most := slices.Min(loads), slices.Max(loads)
	words := fmt.Sprintf("%.4g", least)
	if most > least {
		words += fmt.Sprintf(" to %.4g", most)
	}
	switch {
	case a.Kind == compare.HighestLoad:
		return words + " too high"
	case a.LoadUnit == "concurrency":
		return words + " in flight"
	}
	return words + " req/s"
}

// marks returns what a reader must know of answers and stages.
func marks(a *compare.Against) []string {
	return append(marked(a.Answers, AnswerTitle, answerMarks), marked(a.Stages, StageName, stageMarks)...)
}
