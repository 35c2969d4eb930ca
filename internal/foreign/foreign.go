// Package foreign knows the words of other load generators: vLLM's benchmark, GuideLLM, AIPerf and k6. One table says
// what each is in Spate; flags, plans and translations use it.
package foreign

import (
	_ "embed"
	"maps"
	"slices"
	"strings"

	"github.com/spate-load/spate/internal/words"
)

//go:embed settings.tsv
var table string

// setting is a setting of Spate by the columns of settings.tsv: what others call it, its arguments, its field.
type setting struct{ names, args, field string }

var (
	settings []setting
	byName   = map[string]setting{} // by the names that others give them
	needless []string
	apis     = map[string]string{} // by the words for them
)

func init() {
	for line := range strings.Lines(table) {
		switch column := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); column[0] {
		case "setting":
			s := setting{column[1], column[2], column[3]}
			settings = append(settings, s)
			for name := range strings.FieldsSeq(s.names) {
				byName[name] = s
			}
		case "needless":
			needless = append(needless, strings.Fields(column[1])...)
		case "api":
			for word := range strings.FieldsSeq(column[2]) {
				apis[word] = column[1]
			}
		}
	}
}

// dashed returns a name as flags are written.
func dashed(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "-")) }

// Alias returns the flag of `spate run` that takes the same values as a flag of another load generator, or "".
func Alias(name string) string {
	flag, value, _ := strings.Cut(strings.TrimPrefix(byName[dashed(name)].args, "--"), "=")
	if value != "%s" || flag == "api" || flag == "body" || flag == "header" {
		return ""
	}
	return flag
}

// Meant returns what `spate run` is given for a flag of another load generator, or the place in a plan, or "".
func Meant(name string) string {
	s := byName[dashed(name)]
	if s.args == "" && s.field != "" {
		return s.field + " in a plan (" + words.DocURL("from-other-tools.md", "") + ")"
	}
	return strings.NewReplacer("%ss", "TIME", "%s", "VALUE").Replace(s.args)
}

// Names returns the names of flags that others have.
func Names() []string { return slices.Sorted(maps.Keys(byName)) }

// Field returns the place in a plan of what others call name, or "".
func Field(name string) string { return byName[dashed(name)].field }
