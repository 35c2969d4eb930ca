package rules

import (
	"maps"
	"slices"
	"strconv"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/secret"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// choiceFields ask for several answers in one stream.
var choiceFields = []string{"n", "best_of"}

func (c *checker) body(path string, t *spatev1.Target) {
	own, _ := fieldsOf(defaults.API(t))
	for _, name := range slices.Sorted(maps.Keys(t.GetBody().GetFields())) {
		at := path + "[" + strconv.Quote(name) + "]"
		if secret.FieldName(name) {
			c.wrong(at, "has the name of a secret, and plans are stored with results: "+
				"send it by api_key or in a header, as env:NAME or file:PATH")
		}
		if why := own[name]; why != "" {
			c.wrong(at, "cannot be given: "+why)
		}
		if problem := fieldProblem(name, t.GetBody().GetFields()[name]); problem != "" {
			c.wrong(at, problem)
		}
	}
	c.options(path, t)
}

// fieldProblem returns what is wrong with the value of a field that Spate depends on, or "" if nothing is.
func fieldProblem(name string, value *structpb.Value) string {
	switch {
	case slices.Contains(choiceFields, name) && value.GetNumberValue() != 1:
		return "must be 1: the tokens of several answers in one stream cannot be told apart; send more requests instead"
	case name == "stream_options" && value.GetStructValue() == nil:
		return "must be an object, such as {continuous_usage_stats: false}"
	case name == "stream_options" && givesFalse(value.GetStructValue(), "include_usage"):
		return "must not have include_usage: false: without usage, tokens cannot be counted"
	}
	return ""
}

// givesFalse reports whether an object gives a field any value other than true.
func givesFalse(object *structpb.Struct, name string) bool {
	value, given := object.GetFields()[name]
	return given && !value.GetBoolValue()
}
