package foreign

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/internal/words"
)

// tools are the commands that are translated, each with what it does by default.
var tools = []struct{ command, defaults string }{
	{"vllm bench serve", "--backend openai --target http://127.0.0.1:8000 --num-prompts 1000 --request-rate inf " +
		"--random-input-len 1024 --random-output-len 128"},
	{"guidellm benchmark run", "--request-type chat_completions --profile sweep"},
	{"guidellm benchmark", "--request-type chat_completions --profile sweep"},
	{"aiperf profile", "--endpoint-type chat --url localhost:8000 --isl 550 --stream false"},
}

// translation is what has been translated.
type translation struct {
	args          map[string][]string // values by flag
	port          string
	kind          string // of GuideLLM's profile
	dataset, path string
	output        string   // length of a dataset's answers
	left          []string // what has no equivalent, and changes no load
	wrong         []error  // what cannot be left out
}

// Translate returns the arguments of `spate run` that do what a command line of another load generator does, and what
// they leave out, as it was written. What decides what is tested and has no equivalent is an error.
func Translate(line string) (args, left []string, err error) {
	typed, err := split(line)
	if err != nil {
		return nil, nil, err
	}
	for _, tool := range tools {
		command := strings.Fields(tool.command)
		at := slices.IndexFunc(typed, func(w string) bool { return w == command[0] })
		if at < 0 || !slices.Equal(typed[at:min(at+len(command), len(typed))], command) {
			continue
		}
		t := &translation{args: map[string][]string{}}
		t.read(strings.Fields(tool.defaults))
		t.read(typed[at+len(command):])
		t.settle()
		for _, flag := range slices.Sorted(maps.Keys(t.args)) {
			for _, value := range t.args[flag] {
				args = append(args, "--"+flag+"="+value)
			}
		}
		return args, t.left, errors.Join(t.wrong...)
	}
	return nil, nil, errors.New("want a command line of vllm bench serve, guidellm benchmark or aiperf profile; " +
		words.DocURL("from-other-tools.md", "") + " has what the flags of others are in Spate")
}

// read takes flags and their values.
func (t *translation) read(words []string) {
	for i := 0; i < len(words); i++ {
		name, value, given := strings.Cut(words[i], "=")
		if !strings.HasPrefix(name, "-") {
			t.refuse(words[i])
			continue
		}
		if !given && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			i++
			value = words[i]
		}
		t.take(dashed(strings.TrimLeft(name, "-")), value)
	}
}

// short are flags of one letter.
var short = map[string]string{"m": "model", "u": "url", "h": "header"}

// take takes a flag. GuideLLM has several settings in one: kind=concurrent,streams=4, or the same in JSON.
func (t *translation) take(name, value string) {
	if long := short[name]; long != "" {
		name = long
	}
	composed := slices.Contains([]string{"backend", "profile", "data", "constraint", "rate-type"}, name)
	if fields := map[string]json.RawMessage{}; composed && json.Unmarshal([]byte(value), &fields) == nil {
		var parts []string
		for key, raw := range fields {
			parts = append(parts, key+"="+strings.Trim(string(raw), `"`))
		}
		value = strings.Join(parts, ",")
	}
	if !composed || !strings.Contains(value, "=") {
		t.set(name, value)
		return
	}
	kind := ""
	if found := kindOf.FindStringSubmatch(value); found != nil {
		kind = dashed(found[1])
	}
	for part := range strings.SplitSeq(value, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch {
		case key == "kind" && name == "profile":
			t.set(name, value)
		case key == "kind":
		case name == "constraint": // kind=max_requests,count=100
			t.set(kind, value)
		default:
			t.set(dashed(key), value)
		}
	}
}

// set takes one setting.
func (t *translation) set(name, value string) {
	switch {
	case name == "burstiness" && value == "1":
	case slices.Contains(needless, name):
		t.leave(name, value)
	case name == "dataset-name":
		t.dataset = value
	case name == "dataset-path":
		t.path = value
	case name == "sharegpt-output-len":
		t.output = value
	case name == "output-len":
		t.output = value
		t.known(name, value)
	case name == "host":
		t.known("url", value)
	case name == "port":
		t.port = value
	case name == "profile", name == "rate-type":
		t.kind = value
	case name == "extra-body":
		t.body(value)
	default:
		t.known(name, value)
	}
}

// own are flags that have the same name here.
var own = strings.Fields("target model concurrency rate isl osl seed stream api-key header")

// known takes a setting that the table has, or one of the same name.
func (t *translation) known(name, value string) {
	args := byName[name].args
	if slices.Contains(own, name) {
		args = "--" + name + "=%s"
	}
	switch args {
	case "--api=%s":
		if apis[value] == "" {
			args = ""
		}
		value = cmp.Or(apis[value], value)
	case "--header=%s", "--body=%s":
		if at := strings.IndexAny(value, ":="); at > 0 {
			value = value[:at] + "=" + strings.TrimSpace(value[at+1:])
		}
	}
	if args == "" {
		t.refuse("--" + name)
	}
	for arg := range strings.FieldsSeq(args) {
		t.put(strings.ReplaceAll(arg, "%s", value))
	}
}

// put takes an argument of `spate run`. Most replace what was there.
func (t *translation) put(arg string) {
	flag, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
	if slices.Contains([]string{"set", "body", "header"}, flag) {
		t.args[flag] = append(t.args[flag], value)
		return
	}
	t.args[flag] = []string{value}
}

// body takes the fields of a JSON object.
func (t *translation) body(text string) {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal([]byte(text), &fields) != nil {
		t.refuse("--extra-body")
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		t.put("--body=" + name + "=" + string(fields[name]))
	}
}

// leave notes what has no equivalent.
func (t *translation) leave(name, value string) {
	text := strings.TrimSpace("--" + name + " " + value)
	if field := byName[name].field; field != "" {
		text += " (in a plan: " + field + ")"
	}
	t.left = append(t.left, text)
}

// refuse notes what cannot be left out without testing something else.
func (t *translation) refuse(what string) {
	hint := "take it out, or write Spate's flag for it beside --from"
	if meant := Meant(strings.TrimPrefix(what, "--")); meant != "" {
		hint = "in Spate it is " + meant
	}
	t.wrong = append(t.wrong, fmt.Errorf("without %s another test would run; %s", what, hint))
}

// first returns the first value of a flag, or "".
func (t *translation) first(flag string) string {
	return strings.Join(t.args[flag][:min(1, len(t.args[flag]))], "")
}

// settle puts together what other programs say in several flags.
func (t *translation) settle() {
	t.address()
	t.data()
	switch t.kind {
	case "":
		if t.args["rate"] == nil && t.args["concurrency"] == nil {
			t.args["concurrency"] = []string{"1"} // AIPerf's default
		}
	case "concurrent":
		if rate := t.args["rate"]; rate != nil {
			t.args["concurrency"] = rate
			delete(t.args, "rate")
		}
	case "synchronous":
		t.args["concurrency"] = []string{"1"}
	case "constant", "poisson":
		t.args["arrival"] = []string{t.kind}
	default:
		t.leave("profile", t.kind)
		delete(t.args, "rate") // how many, in a sweep
	}
	if rate := t.first("rate"); rate == "inf" {
		delete(t.args, "rate")
		if t.args["concurrency"] == nil && t.args["requests"] != nil {
			t.args["concurrency"] = t.args["requests"] // all at once
		}
	} else if limit := t.args["concurrency"]; rate != "" && limit != nil {
		t.args["max-in-flight"] = limit
		delete(t.args, "concurrency")
	}
	if t.first("api") == "embeddings" {
		delete(t.args, "osl")
	}
}

// address puts the host and the port of vLLM's benchmark together.
func (t *translation) address() {
	if host := t.first("target"); t.port != "" {
		scheme, rest, found := strings.Cut(host, "://")
		if !found {
			scheme, rest = "http", host
		}
		rest, _, _ = strings.Cut(rest, ":")
		t.args["target"] = []string{scheme + "://" + rest + ":" + t.port}
	}
}

// data takes the dataset of vLLM's benchmark.
func (t *translation) data() {
	switch {
	case t.dataset == "sharegpt" && t.path != "":
		kind := "workloads[0]={sharegpt: {path: " + strconv.Quote(t.path)
		if t.output != "" {
			kind += ", osl: " + t.output
		}
		t.args["set"] = append([]string{kind + "}}"}, t.args["set"]...)
		delete(t.args, "isl")
		delete(t.args, "osl")
	case t.dataset == "random" && t.path != "":
		t.leave("dataset-path", t.path)
	case t.dataset != "random" && t.dataset+t.path != "":
		t.refuse("--dataset-name")
	}
}

// word matches a word of a shell's command line, parts of which may be quoted, part what is special in it, and
// kindOf the kind of composed settings.
var (
	word   = regexp.MustCompile(`(?:[^\s'"\\]|\\[\s\S]|'[^']*'|"(?:[^"\\]|\\.)*")+`)
	part   = regexp.MustCompile(`\\[\s\S]|'[^']*'|"(?:[^"\\]|\\.)*"`)
	kindOf = regexp.MustCompile(`(?:^|,)kind=([^,]*)`)
)

// split splits a command line into words as a shell does. Variables are not replaced.
func split(line string) (words []string, err error) {
	line = strings.ReplaceAll(line, "\\\n", " ")
	if strings.TrimSpace(word.ReplaceAllString(line, "")) != "" {
		return nil, errors.New("a quote is not closed")
	}
	for _, w := range word.FindAllString(line, -1) {
		words = append(words, part.ReplaceAllStringFunc(w, func(quoted string) string {
			switch inner := quoted[1:]; quoted[0] {
			case '\\':
				return inner
			case '"':
				return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(inner[:len(inner)-1])
			default:
				return inner[:len(inner)-1]
			}
		}))
	}
	return words, nil
}
