package api

import (
	_ "embed" // the frames
	"regexp"
	"strconv"
	"strings"

	"github.com/spate-load/spate/simulator/config"
)

// template is what an API sends, parsed. In its text
//
//	$(name)                starts the frame of a named event, $() that of an event without a name
//	$name                  is one of values or numbers; texts of tokens bring their quotes
//	$?name( ... $: ... $)  is the first part if a condition holds, and else the second, which may be left out
//	$!name( ... $)         is its part if the condition does not hold
//
// The rest is literal. The last brace of an object is $close.
type template []segment

// segment is one of: a literal, a value, a condition that guards the next segments, or none of them, which skips those
// of a second part.
type segment struct {
	literal string
	value   func(*FrameWriter, []byte) []byte
	holds   func(*FrameWriter) bool
	unless  bool
	skip    int // number of guarded segments
}

// parse parses a template. The templates are part of the program: it panics if one is wrong.
func parse(text string) (t template) {
	var open []int // the conditions whose ends have not come
	for text != "" {
		literal, rest, found := strings.Cut(text, "$")
		if literal != "" {
			t = append(t, segment{literal: literal})
		}
		if !found {
			break
		}
		switch rest[0] {
		case '(':
			name, after, _ := strings.Cut(rest[1:], ")")
			t = append(t, segment{value: func(p *FrameWriter, b []byte) []byte { return p.event(b, name) }})
			text = after
		case '?', '!':
			name, after, _ := strings.Cut(rest[1:], "(")
			open = append(open, len(t))
			t = append(t, condition(name, rest[0] == '!'))
			text = after
		case ':':
			last := len(open) - 1
			t = append(t, segment{})
			t[open[last]].skip = len(t) - 1 - open[last]
			open[last], text = len(t)-1, rest[1:]
		case ')':
			last := len(open) - 1
			t[open[last]].skip = len(t) - 1 - open[last]
			open, text = open[:last], rest[1:]
		default:
			end := len(rest) - len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz"))
			t = append(t, segment{value: valueNamed(rest[:end])})
			text = rest[end:]
		}
	}
	if len(open) > 0 {
		panic("simulator: a condition of a template has no end")
	}
	return t
}

func condition(name string, unless bool) segment {
	if conditions[name] == nil {
		panic("simulator: no condition is named " + name)
	}
	return segment{holds: conditions[name], unless: unless}
}

func valueNamed(name string) func(*FrameWriter, []byte) []byte {
	if n := numbers[name]; n != nil {
		return func(p *FrameWriter, b []byte) []byte { return strconv.AppendInt(b, int64(n(p)), 10) }
	}
	if values[name] == nil {
		panic("simulator: no value is named " + name)
	}
	return values[name]
}

// put appends what a template says.
func (p *FrameWriter) put(b []byte, t template) []byte {
	for i := 0; i < len(t); i++ {
		switch s := &t[i]; {
		case s.literal != "":
			b = append(b, s.literal...)
		case s.value != nil:
			b = s.value(p, b)
		case s.holds == nil || s.holds(p) == s.unless:
			i += s.skip
		}
	}
	return b
}

// frames is what an API sends, by what it is for. Nothing stands for what it does not have.
type frames struct {
	head    template // kept as $head
	opening template
	token   template
	closing []template // each is one write
	whole   template
	failure template
	broken  template
	mark    template
	// An API with start or stop has its output in blocks: $start and $stop, and token for each part of one block.
	start, stop template
	item        template            // a whole block, of $items
	splits      bool                // reasoning is apart from the text
	translate   func(*Error) *Error // the error in the API's words; nil: as it is
}

//go:embed frames.txt
var framesText string

// apis are the frames of all APIs by name, as frames.txt has them.
var apis = func() map[string]*frames {
	continued, event := regexp.MustCompile(`\n\t+`), regexp.MustCompile(`\$<([a-z_.]+)>`)
	all, f, parts := map[string]*frames{}, &frames{}, []string{}
	for line := range strings.Lines(continued.ReplaceAllString(framesText, "")) {
		name, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		text = event.ReplaceAllString(strings.NewReplacer(parts...).Replace(text), `$$($1){"type":"$1"`)
		fields := map[string]*template{"head": &f.head, "opening": &f.opening, "token": &f.token, "whole": &f.whole,
			"failure": &f.failure, "broken": &f.broken, "mark": &f.mark, "start": &f.start, "stop": &f.stop, "item": &f.item}
		switch {
		case name == "api":
			f = &frames{}
			all[text] = f
		case name == "splits":
			f.splits = true
		case name == "closing":
			f.closing = append(f.closing, parse(text))
		case strings.HasPrefix(name, "$"):
			parts = append(parts, "$["+name[1:]+"]", text)
		case fields[name] != nil:
			*fields[name] = parse(text)
		case name != "" && name[0] != '#':
			panic("simulator: no part of an API is named " + name)
		}
	}
	all["anthropic"].translate = anthropicError
	return all
}()

// Problem implements API.
func (f *frames) Problem(e *Error) (int, []byte) {
	return e.status, (&FrameWriter{Request: &Request{frames: f}}).Failure(nil, e)
}

// conditions guard parts of templates.
var conditions = map[string]func(*FrameWriter) bool{
	"stream":     func(p *FrameWriter) bool { return p.Stream },
	"calls":      func(p *FrameWriter) bool { return p.call != "" },
	"apart":      func(p *FrameWriter) bool { return p.shape.Frames.FinishFrame },
	"atonce":     func(p *FrameWriter) bool { return p.shape.Frames.Role == config.RoleAtOnce },
	"asked":      func(p *FrameWriter) bool { return p.includeUsage },
	"running":    func(p *FrameWriter) bool { return p.continuousUsage },
	"reasons":    func(p *FrameWriter) bool { return p.frames.splits && p.reportedReasoning(1) > 0 },
	"caching":    func(p *FrameWriter) bool { return p.shape.Model.CacheBlocks > 0 },
	"thinks":     func(p *FrameWriter) bool { return p.from < p.split },
	"says":       func(p *FrameWriter) bool { return p.from >= p.split || p.split < p.until },
	"reasoning":  (*FrameWriter).inReasoning,
	"calling":    (*FrameWriter).calling,
	"message":    func(p *FrameWriter) bool { return p.call == "" && !p.inReasoning() },
	"named":      func(p *FrameWriter) bool { return p.named },
	"ended":      func(p *FrameWriter) bool { return p.finish != "" },
	"length":     func(p *FrameWriter) bool { return p.finish == FinishLength },
	"incomplete": func(p *FrameWriter) bool { return p.shape.Frames.FinishFrame && p.finish == FinishLength },
}

var numbers = map[string]func(*FrameWriter) int{
	"created":  func(p *FrameWriter) int { return int(p.created) },
	"prompt":   func(p *FrameWriter) int { return p.PromptTokens },
	"uncached": func(p *FrameWriter) int { return p.PromptTokens - p.Cached },
	"cached":   func(p *FrameWriter) int { return p.Cached },
	"output":   func(p *FrameWriter) int { return p.until },
	"total":    func(p *FrameWriter) int { return p.PromptTokens + p.until },
	"limit":    func(p *FrameWriter) int { return p.MaxTokens },
	"thinking": func(p *FrameWriter) int { return min(p.until, p.thinking) },
	"reported": func(p *FrameWriter) int { return p.reportedReasoning(p.until) },
	"block":    func(p *FrameWriter) int { return p.block },
	"serial": func(p *FrameWriter) int { // of an event
		p.events++
		return p.events - 1
	},
}

// values append themselves. Those of one dialect stand in its file.
var values = map[string]func(*FrameWriter, []byte) []byte{
	"close":   (*FrameWriter).close,
	"end":     (*FrameWriter).end,
	"start":   (*FrameWriter).startBlock,
	"stop":    (*FrameWriter).stopBlock,
	"items":   (*FrameWriter).items,
	"head":    func(p *FrameWriter, b []byte) []byte { return append(b, p.head...) },
	"id":      func(p *FrameWriter, b []byte) []byte { return append(b, p.id...) },
	"model":   func(p *FrameWriter, b []byte) []byte { return append(b, p.served...) },
	"field":   func(p *FrameWriter, b []byte) []byte { return append(b, p.reasoningField...) },
	"thought": func(p *FrameWriter, b []byte) []byte { return p.text(b, p.from, p.split) },
	"text":    func(p *FrameWriter, b []byte) []byte { return p.text(b, p.split, p.until) },
	"sofar":   func(p *FrameWriter, b []byte) []byte { return p.text(b, 0, p.until) },
	"idsofar": func(p *FrameWriter, b []byte) []byte { return p.ids(b, 0, p.until) },
	"input":   (*FrameWriter).input,
	"error":   func(p *FrameWriter, b []byte) []byte { return append(b, p.problem.json()...) },
	"kind":    func(p *FrameWriter, b []byte) []byte { return append(b, p.problem.Type...) },
	"code":    func(p *FrameWriter, b []byte) []byte { return append(b, JSON(p.problem.Code)...) },
	"problem": func(p *FrameWriter, b []byte) []byte { return append(b, JSON(p.problem.Message)...) },
	"pooled":  func(p *FrameWriter, b []byte) []byte { return p.pooled(b) },
	"call": func(p *FrameWriter, b []byte) []byte { // the tool's name; from here on the call is named
		p.named = true
		return append(b, JSON(p.call)...)
	},
}
