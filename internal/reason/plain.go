package reason

import (
	"regexp"
)

// plainer rewrites errors of Go and gRPC in terms of what a person typed. All patterns are applied, in order.
var plainer = []struct {
	pattern *regexp.Regexp
	plain   string
}{
	{regexp.MustCompile(`rpc error: code = \w+ desc = `), ""},
	{regexp.MustCompile(`strconv\.\w+: parsing "(?:[^"\\]|\\.)*": value out of range`), "the number is out of range"},
	{regexp.MustCompile(`strconv\.ParseUint: parsing "(?:[^"\\]|\\.)*": invalid syntax`),
		"want a whole number, 0 or more"},
	{regexp.MustCompile(`strconv\.(?:ParseInt|Atoi): parsing "(?:[^"\\]|\\.)*": invalid syntax`),
		"want a whole number"},
	{regexp.MustCompile(`strconv\.ParseFloat: parsing "(?:[^"\\]|\\.)*": invalid syntax`), "want a number"},
	{regexp.MustCompile(`strconv\.ParseBool: parsing "(?:[^"\\]|\\.)*": invalid syntax`), "want true or false"},
	{regexp.MustCompile(`time: (?:invalid|missing unit in|unknown unit "(?:[^"\\]|\\.)*" in) duration "(?:[^"\\]|\\.)*"`),
		"want a time with its unit, such as 500ms, 30s or 5m"},
}

// Plain removes the names of Go functions and gRPC codes from a message for people. Programs call it where a message
// leaves them: on standard error and in logs.
func Plain(text string) string {
	for _, p := range plainer {
		text = p.pattern.ReplaceAllString(text, p.plain)
	}
	return text
}
