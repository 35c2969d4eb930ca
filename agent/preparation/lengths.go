package preparation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
)

// Requests that the search for words may send, those for the template included.
const (
	tokenizeRequests = 96
	usageRequests    = 48
)

// lengths finds out how prompts get their length.
func (f *finder) lengths(ctx context.Context) error {
	p := f.found.Preparation
	tokenizer := f.stage.GetTarget().GetTokenizer()
	switch {
	case ownText(f.stage.GetWorkload()):
		p.Lengths = "own"
	case f.client.Form() == workload.TokenIDs:
		p.Lengths = "token_ids"
	case tokenizer == "server", tokenizer == "usage":
		p.Lengths = tokenizer
		return f.verified(ctx, tokenizer)
	case strings.HasPrefix(tokenizer, "file:"):
		p.Lengths = "file"
		return f.fromFile(ctx)
	default:
		p.Lengths = "words"
		if f.owner != ownSimulator { // to which a word is a token
			f.note("Prompt lengths are right if the model takes common English words as one token each, which is not checked, and without what a chat template adds: " +
				"to be sure, set the target's tokenizer to server, usage or file:PATH.")
		}
	}
	return nil
}

// ownText says whether a workload's rows give the text.
func ownText(w *spatev1.Workload) bool {
	switch w.GetContent().(type) {
	case *spatev1.Workload_Sonnet, *spatev1.Workload_Sharegpt, *spatev1.Workload_Jsonl:
		return true
	}
	return false
}

// verified takes the workload's own words as far as the server counts one token for each.
func (f *finder) verified(ctx context.Context, tokenizer string) error {
	if f.silent {
		return fmt.Errorf("tokenizer %s: the endpoint cannot be reached: %s", tokenizer, strings.Join(f.found.Preparation.GetNotes(), " "))
	}
	chat := f.client.Form() == workload.Messages
	s, candidates := &scale{weigh: f.measure, left: usageRequests}, fitting(workload.Words(), f.found.Preparation.GetMaxModelTokens())
	if tokenizer == "server" {
		s, candidates = &scale{weigh: f.tokenize, left: tokenizeRequests}, workload.Words()
		if f.api() == "anthropic" { // which counts chats alone, with all that is added to them
			s.weigh, chat = f.tokenizeChat, false
		}
	}
	words, err := s.search(ctx, candidates)
	if err != nil {
		return fmt.Errorf("tokenizer %s: %w", tokenizer, err)
	}
	if s.unchecked {
		f.note("Whether words are one token each at the begin of a prompt, too, could not be checked: prompts can be one token longer than asked.")
	}
	f.found.Words = words
	if tokenizer == "server" && chat {
		return f.chatTemplate(ctx, words)
	}
	f.template(s.added)
	return nil
}

// fitting returns as many words as a server's limit allows in one prompt: each may have two tokens of a line feed beside it, and a chat
// template adds some. 0: there is no limit that is known.
func fitting(words []string, limit uint32) []string {
	const template, each = 100, 3
	if limit == 0 {
		return words
	}
	n := max(fewest, (int(limit)-template)/each)
	return words[:min(n, len(words))]
}

// template takes down how many tokens the server adds to a prompt.
func (f *finder) template(tokens uint32) {
	f.found.Template = tokens
	f.found.Preparation.TemplateTokens = &tokens
}

// tokenize weighs a text on the server's tokenizer.
func (f *finder) tokenize(ctx context.Context, text string) (uint64, error) {
	t, err := f.client.Tokenize(ctx, endpoint, text)
	f.most(t.MaxModelTokens)
	return t.Count, err
}

// tokenizeChat weighs a chat on the server's tokenizer.
func (f *finder) tokenizeChat(ctx context.Context, text string) (uint64, error) {
	t, err := f.client.TokenizeChat(ctx, endpoint, text)
	return t.Count, err
}

// measure weighs a text on what the server says that it used.
func (f *finder) measure(ctx context.Context, text string) (uint64, error) {
	return f.client.Measure(ctx, endpoint, text)
}

// chatTemplate weighs what the chat template adds: on the server's tokenizer if it takes chats, else by its usage.
func (f *finder) chatTemplate(ctx context.Context, words []string) error {
	chat := &scale{weigh: f.tokenizeChat, left: usageRequests}
	if chat.constant(ctx, words) == nil {
		f.template(chat.added)
		return nil
	}
	usage := &scale{weigh: f.measure, left: usageRequests}
	if err := usage.constant(ctx, words); err != nil {
		return fmt.Errorf("tokenizer server: what the chat template adds cannot be found out: %w", err)
	}
	f.template(usage.added)
	return nil
}

// fromFile takes the words that a tokenizer file gave, and has the server weigh the template with them, if it can.
func (f *finder) fromFile(ctx context.Context) error {
	words := f.stage.GetLexicon().GetWords()
	if len(words) == 0 {
		return errors.New("tokenizer file: the stage came without the words of the tokenizer file")
	}
	f.found.Words = words
	if f.silent {
		return nil
	}
	s := &scale{weigh: f.measure, left: usageRequests}
	if err := s.constant(ctx, words); err != nil {
		f.note("What the server adds to a prompt is not known: %v.", err)
		return nil
	}
	f.template(s.added)
	return nil
}
