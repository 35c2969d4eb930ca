package foreign

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// tools are the commands that are translated, each with what it does by default.
var tools = []struct{ command, defaults string }{
	{"vllm bench serve", "--backend openai --target http://127.0.0.1:8000 --num-prompts 1000 --request-rate inf " +
		"--random-input-len 1024 --random-output-len 128"},
	{"guidellm benchmark run", "--request-type chat_completions"},
	{"guidellm benchmark", "--request-type chat_completions"},
	{"aiperf profile", "--endpoint-type chat --url localhost:8000 --isl 550 --stream false"},
}

// needless are flags without an equivalent whose absence changes no load.
var needless = strings.Fields("save-result save-detailed append-result result-dir result-filename percentile-metrics " +
	"metric-percentiles disable-tqdm trust-remote-code tokenizer tokenizer-mode ui artifact-dir output-artifact-dir " +
	"output-path output-dir outputs output label metadata ready-check-timeout-sec disable-console")

// apis are the words for the API of the endpoints.
var apis = map[string]string{
	"openai": "completions", "vllm": "completions", "completions": "completions", "text_completions": "completions",
	"/v1/completions": "completions", "openai-chat": "chat", "chat": "chat", "chat_completions": "chat",
	"/v1/chat/completions": "chat", "responses": "responses", "/v1/responses": "responses",
	"openai-embeddings": "embeddings", "embeddings": "embeddings", "/v1/embeddings": "embeddings",
}

// translation is what has been translated.
type translation struct {
	args map[string][]string // values by flag
	port string
	kind string   // of GuideLLM's profile
	left []string // what has no equivalent
}

// Translate returns the arguments of `spate run` that do what a command line of another load generator does, and what
// they leave out, as it was written.
func Translate(line string) (args, left []string, err error) {
	words := split(line)
	for _, tool := range tools {
		command := strings.Fields(tool.command)
		at := slices.IndexFunc(words, func(w string) bool { return w == command[0] })
		if at < 0 || !slices.Equal(words[at:min(at+len(command), len(words))], command) {
			continue
		}
		t := &translation{args: map[string][]string{}}
		t.read(strings.Fields(tool.defaults))
		t.read(words[at+len(command):])
		t.settle()
		for _, flag := range slices.Sorted(maps.Keys(t.args)) {
			for _, value := range t.args[flag] {
				args = append(args, "--"+flag+"="+value)
			}
		}
		return args, t.left, nil
	}
	return nil, nil, errors.New("want a command line of vllm bench serve, guidellm benchmark or aiperf profile")
}

// read takes flags and their values.
func (t *translation) read(words []string) {
	for i := 0; i < len(words); i++ {
		name, value, given := strings.Cut(words[i], "=")
		if !strings.HasPrefix(name, "-") {
			t.left = append(t.left, words[i])
			continue
		}
		if !given && i+1 < len(words) && !strings.HasPrefix(words[i+1], "--") {
			i++
			value = words[i]
		}
		t.take(dashed(strings.TrimLeft(name, "-")), value)
	}
}

// short are flags of one letter.
var short = map[string]string{"m": "model", "u": "url", "h": "header"}

// take takes a flag. GuideLLM has several settings in one: kind=concurrent,streams=4.
func (t *translation) take(name, value string) {
	if long := short[name]; long != "" {
		name = long
	}
	composed := slices.Contains([]string{"backend", "profile", "data", "constraint", "rate-type"}, name)
	if !composed || !strings.Contains(value, "=") {
		t.set(name, value)
		return
	}
	kind := ""
	for part := range strings.SplitSeq(value, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch {
		case key == "kind" && name == "profile":
			t.set(name, value)
		case key == "kind":
			kind = dashed(value)
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
	case slices.Contains(needless, name), name == "dataset-name" && value == "random", name == "burstiness" && value == "1":
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
		t.leave(name, value)
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
		t.leave("extra-body", text)
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

// first returns the first value of a flag, or "".
func (t *translation) first(flag string) string {
	return strings.Join(t.args[flag][:min(1, len(t.args[flag]))], "")
}

// settle puts together what other programs say in several flags.
func (t *translation) settle() {
	if host := t.first("target"); t.port != "" {
		scheme, rest, found := strings.Cut(host, "://")
		if !found {
			scheme, rest = "http", host
		}
		rest, _, _ = strings.Cut(rest, ":")
		t.args["target"] = []string{scheme + "://" + rest + ":" + t.port}
	}
	switch t.kind {
	case "", "sweep":
		if t.kind != "" {
			t.leave("profile", "sweep (in a plan: loads[].frontier)")
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

// word matches a word of a shell's command line, parts of which may be quoted, and part what is special in it.
var (
	word = regexp.MustCompile(`(?:[^\s'"\\]|\\[\s\S]|'[^']*'|"(?:[^"\\]|\\.)*")+`)
	part = regexp.MustCompile(`\\[\s\S]|'[^']*'|"(?:[^"\\]|\\.)*"`)
)

// split splits a command line into words as a shell does. Variables are not replaced.
func split(line string) (words []string) {
	for _, w := range word.FindAllString(strings.ReplaceAll(line, "\\\n", " "), -1) {
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
	return words
}
