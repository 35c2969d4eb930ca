package ready

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans/defaults"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
)

// This file has the canaries of a stage: short requests for greedy decoding, which a server should answer under load as
// it does when it is quiet. Nothing is measured of them but their answers.

const (
	// canaryTokens is how many tokens the answer to a canary may have.
	canaryTokens = 24
	// quietAnswers is how many answers of a quiet target are wanted, over its endpoints, and quietTime how long that
	// may take.
	quietAnswers, quietTime = 1000, 25 * time.Second
	// fewestRounds is how often each canary is asked at least, if there is time.
	fewestRounds = 10
	// unclear is the share of an endpoint's quiet answers to a canary that must differ for it not to be asked again.
	unclear = 0.1
)

// clearPrompts are prompts whose continuation is clear to models of all kinds.
var clearPrompts = []string{
	"Count on: one, two, three, four, five,", "Monday, Tuesday, Wednesday,", "January, February, March,",
	"The capital of France is", "a, b, c, d, e, f,", "2, 4, 6, 8, 10, 12,", "red, green, blue, red, green, blue, red,",
	"Repeat: the quick brown fox jumps over the lazy dog. The quick brown", "To be, or not to be, that is the",
	"Twinkle, twinkle, little star, how I wonder", "Mercury, Venus, Earth, Mars,", "10, 9, 8, 7, 6,",
	"The opposite of hot is", "import numpy as",
}

// canary is a prompt. A task has a right answer.
type canary struct{ text, right string }

// tasks returns the tasks: sums, keys in a context at several depths, and an object of JSON.
func tasks() (all []canary) {
	const lines, smallest, largest = 40, 1000, 9999
	drawn := draw.New(1, "canaries")
	number := func(of int) uint64 { return smallest + drawn.Below(uint64(of), largest-smallest+1) }
	for i := range 2 {
		a, b := number(2*i)%90+10, number(2*i+1)%90+10
		all = append(all, canary{fmt.Sprintf("Answer with the number only. %d + %d =", a, b), fmt.Sprint(a + b)})
	}
	for i, depth := range []int{3, lines / 2, lines - 3} {
		var text strings.Builder
		for line := range lines {
			fmt.Fprintf(&text, "The key of box %d is %d.\n", line, number(lines*(i+1)+line))
		}
		fmt.Fprintf(&text, "Answer with the number only. The key of box %d is", depth)
		all = append(all, canary{text.String(), fmt.Sprint(number(lines*(i+1) + depth))})
	}
	return append(all, canary{`Answer with JSON only, with the keys "name" and "age". Ann is 41 years old. JSON:`,
		`{"name":"Ann","age":41}`})
}

// isRight reports whether an answer to a task has what is right, by itself. White space does not count.
func (c *canary) isRight(answer string) bool {
	before, after, has := strings.Cut(strings.Join(strings.Fields(answer), ""), c.right)
	return has && strings.TrimRightFunc(before, unicode.IsDigit) == before &&
		strings.TrimLeftFunc(after, unicode.IsDigit) == after
}

// Canaries are the canaries of a stage. They are safe for concurrent use. Nil Canaries are never due.
type Canaries struct {
	all    []canary
	bodies [][]byte
	share  float64
	drawn  draw.Sequence
	quiet  []*spatev1.QuietAnswers // by endpoint
}

// asker sends requests. *stream.Client is one.
type asker interface {
	Do(ctx context.Context, r stream.Request, o *stream.Observation)
}

// newCanaries returns a stage's canaries. The error says why its API cannot be asked for greedy decoding.
func (s *Stage) newCanaries() (*Canaries, error) {
	p, a := s.Assigned.GetCanaries(), defaults.API(s.Target())
	if a.NoOutput || a.DescribedBody() {
		return nil, fmt.Errorf("api %s cannot be asked for greedy decoding", a.Name)
	}
	c := &Canaries{share: p.GetShare(), drawn: draw.New(s.Assigned.GetSeed(), "canary"), quiet: s.found.GetAnswers()}
	prompts := p.GetPrompts()
	if len(prompts) == 0 {
		prompts = clearPrompts
	}
	c.all = append(lists.Each(prompts, func(text string) canary { return canary{text: text} }), tasks()...)
	asks := stream.TrialRequest{Tokens: canaryTokens, With: map[string]any{"temperature": 0}}
	if a.Name == "tgi" { // refuses that temperature, and is greedy unless it is to sample
		asks.With = map[string]any{"temperature": nil, "do_sample": false}
	}
	body := s.Target().GetBody().AsMap()
	if a.Options != "" {
		own, _ := body[a.Options].(map[string]any)
		options := map[string]any{}
		maps.Copy(options, own)
		maps.Copy(options, asks.With)
		asks.With = map[string]any{a.Options: options}
	}
	asks.Without = lists.Where(askFields, func(name string) bool { return body[name] != nil })
	for _, one := range c.all {
		asks.Text = one.text
		b, err := s.Client.TrialBody(asks)
		if err != nil {
			return nil, err
		}
		c.bodies = append(c.bodies, b)
	}
	return c, nil
}

// askFields are the fields of bodies that ask for more than text.
var askFields = []string{"tools", "tool_choice", "parallel_tool_calls", "response_format", "structured_outputs",
	"guided_json", "guided_regex", "guided_choice", "guided_grammar", "text", "output_config", "output_format"}

// Due returns the canary that goes beside a request, if one does: of those whose answer the endpoint has shown.
func (c *Canaries) Due(endpoint int, index uint64, turn int) (number int, due bool) {
	if c == nil || endpoint >= len(c.quiet) {
		return 0, false
	}
	drawn := c.drawn.Sub(index)
	if drawn.Unit(2*uint64(turn)) >= c.share {
		return 0, false
	}
	number = int(drawn.Below(2*uint64(turn)+1, uint64(len(c.all))))
	return number, c.quiet[endpoint].GetHashes()[number] != 0
}

// Answer is what came of a canary.
type Answer struct {
	// End is when that was known.
	End clock.Instant
	// Failed: there is no answer. Differs: the answer is not that of the quiet endpoint.
	Failed, Differs bool
	// Alike is how many words of an answer that differs are those of the quiet endpoint.
	Alike uint64
	// Task: there is a right answer. Right: this is it.
	Task, Right bool

	text string
	hash uint64 // of the text; 0: it has none
	err  error
}

// Ask asks an endpoint one of the canaries, and blocks until it has answered.
func (c *Canaries) Ask(ctx context.Context, client asker, endpoint, number int, id string) Answer {
	var o stream.Observation
	client.Do(ctx, stream.Request{Endpoint: endpoint, ID: id, Body: c.bodies[number], Tokens: canaryTokens,
		KeepAnswer: true}, &o)
	one := &c.all[number]
	a := Answer{End: o.End, Failed: o.Err != nil || o.Cancelled, Task: one.right != ""}
	if o.Err != nil {
		a.err = o.Err
	}
	if a.text = answerText(o.Answer); a.text != "" && !a.Failed {
		a.hash, a.Right = draw.Hash(a.text), a.Task && one.isRight(a.text)
	}
	if a.Differs = endpoint < len(c.quiet) && a.hash != c.quiet[endpoint].GetHashes()[number]; a.Differs {
		a.Alike = alike(a.text, c.quiet[endpoint].GetTexts()[number])
	}
	return a
}

// alike returns how many words two texts begin with alike.
func alike(a, b string) (n uint64) {
	ours, theirs := strings.Fields(a), strings.Fields(b)
	for n < uint64(min(len(ours), len(theirs))) && ours[n] == theirs[n] {
		n++
	}
	return n
}

// askQuiet asks the target's endpoints the canaries before the load, and adds to what is found what they answered.
func (s *Stage) askQuiet(ctx context.Context, found *spatev1.Found) {
	p := found.GetPreparation()
	c, err := s.newCanaries()
	if err != nil {
		p.Notes = append(p.Notes, fmt.Sprintf("No canaries are asked: %v.", err))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	endpoints := min(len(s.Target().GetEndpoints()), maxEndpoints)
	found.Answers, p.Canaries = make([]*spatev1.QuietAnswers, endpoints), make([]*spatev1.QuietCount, endpoints)
	errs := make([]error, endpoints)
	rounds := max(fewestRounds, quietAnswers/len(c.all)/endpoints)
	var asking sync.WaitGroup
	for i := range endpoints {
		asking.Go(func() { found.Answers[i], p.Canaries[i], errs[i] = c.askEndpoint(ctx, s.Client, i, rounds) })
	}
	asking.Wait()
	asked, left := uint64(0), 0
	for i, of := range found.GetAnswers() {
		asked += p.GetCanaries()[i].GetAsked()
		left += len(slices.DeleteFunc(slices.Clone(of.GetHashes()), func(h uint64) bool { return h != 0 }))
	}
	p.Requests += uint32(asked)
	switch all := len(c.all) * endpoints; {
	case asked == 0:
		found.Answers, p.Canaries = nil, nil
		p.Notes = append(p.Notes, fmt.Sprintf("No canaries are asked: %v.", errors.Join(errs...)))
	case left > 0:
		p.Notes = append(p.Notes, fmt.Sprintf("%d of %d canaries are not asked under load: in %v the quiet server gave fewer "+
			"than two answers to each, or not always the same.", left, all, quietTime))
	}
}

// errNoText says why an answer cannot be compared.
var errNoText = errors.New("their answers have no text")

// askEndpoint asks an endpoint all canaries, first one at a time, if that does not take half of the time, and then all
// at once in each round. Most answers to a canary are the answer. The error says why there was none to the first.
func (c *Canaries) askEndpoint(
	ctx context.Context, client asker, endpoint, rounds int,
) (*spatev1.QuietAnswers, *spatev1.QuietCount, error) {
	answers := make([][]Answer, len(c.all))
	for i, begun := 0, time.Now(); i < len(c.all) && time.Since(begun) < quietTime/2; i++ {
		answers[i] = []Answer{c.Ask(ctx, client, endpoint, i, "")}
	}
	for round := 1; round < rounds && ctx.Err() == nil; round++ {
		var asking sync.WaitGroup
		for i := range c.all {
			if len(answers[i]) == 0 || answers[i][0].hash != 0 {
				asking.Go(func() { answers[i] = append(answers[i], c.Ask(ctx, client, endpoint, i, "")) })
			}
		}
		asking.Wait()
	}
	all, count := &spatev1.QuietAnswers{}, &spatev1.QuietCount{}
	for _, of := range answers {
		most, text := countQuiet(of, count)
		all.Hashes, all.Texts = append(all.Hashes, most), append(all.Texts, text)
	}
	return all, count, cmp.Or(answers[0][0].err, errNoText)
}

// countQuiet counts the answers to one canary, and returns the hash of most of them and their text. 0: that is not
// clear.
func countQuiet(answers []Answer, count *spatev1.QuietCount) (most uint64, text string) {
	alike, asked := map[uint64]int{}, 0
	for _, a := range answers {
		if a.hash == 0 {
			continue
		}
		asked++
		if alike[a.hash]++; alike[a.hash] > alike[most] {
			most, text = a.hash, a.text
		}
		if a.Task {
			count.Tasks++
		}
		if a.Right {
			count.Right++
		}
	}
	differing := asked - alike[most]
	count.Asked, count.Differing = count.Asked+uint64(asked), count.Differing+uint64(differing)
	if asked < 2 || float64(differing) > unclear*float64(asked) {
		return 0, ""
	}
	return most, text
}
