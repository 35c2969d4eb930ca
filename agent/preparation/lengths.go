package preparation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spate-load/spate/workload"
)

// The number of requests that the search for words may send.
const (
	tokenizeRequests = 96
	usageRequests    = 48
)

// lengths finds out how prompts get their length.
func (f *finder) lengths(ctx context.Context) error {
	tokenizer := f.stage.GetTarget().GetTokenizer()
	switch {
	case KindOf(f.stage.GetWorkload()) == Own:
		f.own(ctx, tokenizer)
		return nil
	case f.client.Form() == workload.TokenIDs:
		f.found.Preparation.Lengths = "token_ids"
		return nil
	case tokenizer == "auto":
		f.auto(ctx)
		return nil
	case tokenizer == "server", tokenizer == "usage":
		if f.silent {
			return fmt.Errorf("tokenizer %s: the endpoint cannot be reached: %s", tokenizer,
				strings.Join(f.found.Preparation.GetNotes(), " "))
		}
		if err := f.verified(ctx, tokenizer); err != nil {
			return fmt.Errorf("tokenizer %s: %w", tokenizer, err)
		}
		return f.countLines(ctx, tokenizer)
	case strings.HasPrefix(tokenizer, "file:"):
		if err := f.fromFile(ctx); err != nil {
			return err
		}
		if err := f.countLines(ctx, "file"); err != nil {
			f.note("What the server adds to a prompt of whole lines is not known: %v.", brief(err))
		}
		return nil
	}
	f.byWords("")
	return nil
}

// own handles rows with given texts. Only a tokenizer file counts their tokens, and then the tokens that the server
// adds are part of the length.
func (f *finder) own(ctx context.Context, tokenizer string) {
	f.found.Preparation.Lengths = "own"
	switch {
	case tokenizer == "server", tokenizer == "usage":
		f.note("The workload's rows give the text of the prompts, and tokenizer: %s does not count it: no length "+
			"is requested, and only the server's usage reports the lengths. To compare the two, set the target's "+
			"tokenizer to file:PATH.", tokenizer)
	case strings.HasPrefix(tokenizer, "file:") && f.client.Form() != workload.TokenIDs &&
		len(f.stage.GetLexicon().GetWords()) > 0:
		f.weighTemplate(ctx, f.stage.GetLexicon().GetWords())
	}
}

// auto uses the first way that works. If none does, prompts are made of unchecked words.
func (f *finder) auto(ctx context.Context) {
	if f.silent || f.api() == "triton" { // Triton counts no tokens
		f.byWords("")
		return
	}
	within, cancel := context.WithTimeout(ctx, lengthsLimit)
	defer cancel()
	var why []string
	for _, way := range []string{"server", "usage"} {
		if way == "usage" && f.broken {
			why = append(why, "short requests fail")
			break
		}
		err := f.verified(within, way)
		if err == nil {
			if err := f.countLines(within, way); err != nil {
				f.note("The lengths of the text's lines are estimated from their words: %v.", err)
			}
			return
		}
		why = append(why, fmt.Sprintf("by %s: %v", way, brief(err)))
	}
	f.byWords(strings.Join(why, "; "))
}

// brief returns an error's text without advice that only a plan with that tokenizer needs.
func brief(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "the server took too long"
	}
	text, _, _ := strings.Cut(err.Error(), ": set the target's tokenizer")
	text, _, _ = strings.Cut(text, "; set the target's tokenizer")
	return text
}

// byWords makes prompts of words that nobody has counted. why is the reason, or "" if the plan wants it so.
func (f *finder) byWords(why string) {
	f.found.Preparation.Lengths = "words"
	switch {
	case why != "":
		f.note("Each word of a prompt counts as one token, and the chat template is not known: the server's tokens "+
			"could not be counted (%s). For exact lengths, set the target's tokenizer to file:PATH, the model's "+
			"tokenizer.json.", why)
	case f.owner != ownSimulator: // for the simulator a word is a token
		f.note("Each word of a prompt counts as one token, which is not checked, and the chat template is not " +
			"known: for exact lengths, set the target's tokenizer to auto or file:PATH.")
	}
}

// verified uses those of the workload's own words that the server counts as one token each.
func (f *finder) verified(ctx context.Context, way string) error {
	s, err := f.scale(ctx, way)
	if err != nil {
		return err
	}
	if err := s.search(ctx); err != nil {
		return err
	}
	f.found.Preparation.Lengths = way
	f.found.Words, f.found.First = s.words, s.first
	f.template(uint32(s.base - 1))
	return nil
}

// scale returns a scale that counts by the server's tokenizer (as chats, if the tokenizer accepts chats), or by usage.
func (f *finder) scale(ctx context.Context, way string) (*scale, error) {
	if way == "usage" {
		return &scale{prompt: f.measure, list: f.measure, same: true, left: usageRequests, looks: singles,
			words: f.fitting()}, nil
	}
	s := &scale{prompt: f.tokenize, list: f.tokenize, same: true, left: tokenizeRequests, looks: singles,
		words: workload.Words()}
	if f.client.Form() != workload.Messages {
		return s, nil
	}
	_, err := f.tokenizeChat(ctx, s.words[0])
	if err == nil {
		s.prompt, s.list = f.tokenizeChat, f.tokenizeChat
		return s, nil
	}
	if _, err := f.tokenize(ctx, s.words[0]); err != nil {
		return nil, err
	}
	s.prompt, s.same, s.words = f.measureChat, false, f.fitting()
	return s, nil
}

// measureChat is measure for a server whose tokenizer accepts no chats.
func (f *finder) measureChat(ctx context.Context, text string) (uint64, error) {
	w, err := f.measure(ctx, text)
	if err != nil {
		return 0, fmt.Errorf("the tokens that the chat template adds cannot be counted: %w", err)
	}
	return w, nil
}

// fitting returns as many words as the server's limit allows in one prompt, at up to three tokens each and besides a
// template.
func (f *finder) fitting() []string {
	const template, each = 100, 3
	words := workload.Words()
	limit := int(f.found.Preparation.GetMaxModelTokens())
	if limit == 0 {
		return words
	}
	return words[:min(max(fewest, (limit-template)/each), len(words))]
}

// template records how many tokens the server adds to a prompt.
func (f *finder) template(tokens uint32) {
	f.found.Template = tokens
	f.found.Preparation.TemplateTokens = &tokens
}

// tokenize weighs a text with the server's tokenizer.
func (f *finder) tokenize(ctx context.Context, text string) (uint64, error) {
	f.ask()
	t, err := f.client.Tokenize(ctx, endpoint, text)
	f.most(t.MaxModelTokens)
	return t.Count, err
}

// tokenizeChat weighs a chat with the server's tokenizer.
func (f *finder) tokenizeChat(ctx context.Context, text string) (uint64, error) {
	f.ask()
	t, err := f.client.TokenizeChat(ctx, endpoint, text)
	f.most(t.MaxModelTokens)
	return t.Count, err
}

// measure weighs a text by the server's usage.
func (f *finder) measure(ctx context.Context, text string) (uint64, error) {
	f.ask()
	return f.client.Measure(ctx, endpoint, text)
}

// fromFile uses the words of a tokenizer file, and weighs the template with them if the server can count.
func (f *finder) fromFile(ctx context.Context) error {
	f.found.Preparation.Lengths = "file"
	words := f.stage.GetLexicon().GetWords()
	if len(words) == 0 {
		return errors.New("tokenizer file: its words are missing from the assignment")
	}
	f.found.Words = words
	f.weighTemplate(ctx, words)
	return nil
}

// weighTemplate finds out what the server adds to a prompt, with words that are one token each in all places.
func (f *finder) weighTemplate(ctx context.Context, words []string) {
	if f.silent {
		return
	}
	const known = 3 // words are known to be one token each: a few are enough to see what else a prompt has
	s := &scale{prompt: f.measure, list: f.measure, same: true, left: usageRequests, looks: min(known, len(words)),
		words: words}
	err := s.starts(ctx)
	if err == nil {
		err = s.confirm(ctx)
	}
	if err != nil {
		f.note("What the server adds to a prompt is not known: %v.", brief(err))
		return
	}
	f.template(uint32(s.base - 1))
}
