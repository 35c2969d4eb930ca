package ready

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/content"
)

// mostRequests is how many requests a target gets until its words are found and the lines of a sonnet are counted.
const mostRequests = 60

// requestsLeft returns how many of them are left, but for those that are kept for the lines of sonnets. What other
// endpoints are asked does not count.
func (f *finder) requestsLeft() int {
	kept := 0
	for _, part := range content.Parts(f.stage.GetWorkload()) {
		if part.GetSonnet() != nil {
			kept = lineRequests
		}
	}
	return max(0, mostRequests-kept-int(f.requests-f.elsewhere))
}

// lengths finds out how prompts get their length.
func (f *finder) lengths(ctx context.Context) error {
	tokenizer := f.stage.GetTarget().GetTokenizer()
	switch {
	case ownText(f.stage.GetWorkload()):
		f.ownLengths(ctx, tokenizer)
		return nil
	case f.api().Cuts:
		f.found.Preparation.Lengths = "words"
		f.note("Prompts are cut into a query and documents, so no length in tokens is requested: a word counts as one " +
			"token, and the lengths are those that the server reports.")
		return nil
	case f.client.Form() == workload.TokenIDs:
		f.found.Preparation.Lengths = "token_ids"
		return nil
	case tokenizer == "auto":
		f.autoLengths(ctx)
		return nil
	case tokenizer == "server", tokenizer == "usage":
		if f.unreachable {
			return fmt.Errorf("tokenizer %s: the endpoint cannot be reached: %s", tokenizer,
				strings.Join(f.found.Preparation.GetNotes(), " "))
		}
		if err := f.useVerified(ctx, tokenizer); err != nil {
			return fmt.Errorf("tokenizer %s: %w", tokenizer, err)
		}
		return f.countLines(ctx, tokenizer)
	case strings.HasPrefix(tokenizer, "file:"):
		if err := f.useFile(ctx); err != nil {
			return err
		}
		if err := f.countLines(ctx, "file"); err != nil {
			f.note("What the server adds to a prompt of whole lines is not known: %v.", brief(err))
		}
		return nil
	}
	f.useUncounted("")
	return nil
}

// ownLengths handles rows with given texts. Only a tokenizer file counts their tokens, and then the tokens that the
// server adds are part of the length.
func (f *finder) ownLengths(ctx context.Context, tokenizer string) {
	f.found.Preparation.Lengths = "own"
	switch {
	case tokenizer == "server", tokenizer == "usage":
		f.note("The workload's rows give the text of the prompts, and tokenizer: %s does not count it: no length "+
			"is requested, and only the server's usage reports the lengths. To compare the two, set the target's "+
			"tokenizer to file:PATH.", tokenizer)
	case strings.HasPrefix(tokenizer, "file:") && f.client.Form() != workload.TokenIDs &&
		len(f.stage.GetLexicon().GetWords()) > 0:
		f.countTemplate(ctx, f.stage.GetLexicon().GetWords())
	}
}

// autoLengths uses the first way that works. If none does, prompts are made of unchecked words.
func (f *finder) autoLengths(ctx context.Context) {
	if f.unreachable || f.api().Uncounted {
		f.useUncounted("")
		return
	}
	within, cancel := context.WithTimeout(ctx, lengthsLimit)
	defer cancel()
	var why []string
	for _, way := range []string{"server", "usage"} {
		if way == "usage" && f.requestsFail {
			why = append(why, "short requests fail")
			break
		}
		err := f.useVerified(within, way)
		if err == nil {
			if err := f.countLines(within, way); err != nil {
				f.note("The lengths of the text's lines are estimated from their words: %v.", err)
			}
			return
		}
		why = append(why, fmt.Sprintf("by %s: %v", way, brief(err)))
	}
	f.useUncounted(strings.Join(why, "; "))
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

// useUncounted makes prompts of words whose tokens were not counted. why is the reason, or "" if the plan wants it so.
func (f *finder) useUncounted(why string) {
	f.found.Preparation.Lengths = "words"
	switch {
	case why != "":
		f.note("Each word of a prompt counts as one token: the server's tokens and its chat template are not known. For "+
			"exact lengths, set the target's tokenizer to file:PATH, the model's tokenizer.json. Why they could not be "+
			"counted: %s.", why)
	case f.owner != stream.OwnSimulator: // for the simulator a word is a token
		f.note("Each word of a prompt counts as one token, which is not checked, and the chat template is not " +
			"known. For exact lengths, set the target's tokenizer to auto or file:PATH.")
	}
}

// useVerified uses those of the workload's own words that the server counts as one token each.
func (f *finder) useVerified(ctx context.Context, way string) error {
	s, err := f.newWordFinder(ctx, way)
	if err != nil {
		return err
	}
	if err := s.search(ctx); err != nil {
		return err
	}
	f.found.Preparation.Lengths = way
	f.found.Words, f.found.First = s.words, s.first
	f.found.Preparation.TemplateTokens = new(uint32(s.base - 1))
	return nil
}

// newWordFinder returns a finder that counts by the server's tokenizer (as chats, if the tokenizer accepts chats), or
// by usage.
func (f *finder) newWordFinder(ctx context.Context, way string) (*wordFinder, error) {
	if way == "usage" {
		return &wordFinder{
			countPrompt:  f.measure,
			requestsLeft: f.requestsLeft(),
			perRound:     singlesPerRound,
			words:        f.fitting(),
		}, nil
	}
	s := &wordFinder{
		countPrompt:  f.tokenize,
		requestsLeft: f.requestsLeft() - 1, // one shows whether chats are accepted
		perRound:     singlesPerRound,
		words:        workload.LexiconWords(),
	}
	if f.client.Form() != workload.Messages {
		return s, nil
	}
	_, err := f.tokenizeChat(ctx, s.words[0])
	if err == nil {
		s.countPrompt = f.tokenizeChat
		return s, nil
	}
	if _, err := f.tokenize(ctx, s.words[0]); err != nil {
		return nil, err
	}
	s.countPrompt, s.countList, s.words = f.measureChat, f.tokenize, f.fitting()
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
	words := workload.LexiconWords()
	limit := int(f.found.Preparation.GetMaxModelTokens())
	if limit == 0 {
		return words
	}
	return words[:min(max(minWords, (limit-template)/each), len(words))]
}

// tokenize counts a text with the server's tokenizer.
func (f *finder) tokenize(ctx context.Context, text string) (uint64, error) {
	return f.count(f.client.Tokenize(ctx, endpoint, text))
}

// tokenizeChat counts a chat with the server's tokenizer.
func (f *finder) tokenizeChat(ctx context.Context, text string) (uint64, error) {
	return f.count(f.client.TokenizeChat(ctx, endpoint, text))
}

// count counts a request to the server's tokenizer, and returns the tokens of its answer.
func (f *finder) count(t api.Tokens, err error) (uint64, error) {
	f.countRequest()
	f.setMaxTokens(t.MaxModelTokens)
	return t.Count, err
}

// measure counts a text by the server's usage.
func (f *finder) measure(ctx context.Context, text string) (uint64, error) {
	f.countRequest()
	return f.client.Measure(ctx, endpoint, text)
}

// useFile uses the words of a tokenizer file, and counts the template with them if the server can count.
func (f *finder) useFile(ctx context.Context) error {
	f.found.Preparation.Lengths = "file"
	words := f.stage.GetLexicon().GetWords()
	if len(words) == 0 {
		return errors.New("tokenizer file: its words are missing from the assignment")
	}
	f.found.Words = words
	f.countTemplate(ctx, words)
	return nil
}

// countTemplate finds out what the server adds to a prompt, with words that are one token each in all places.
func (f *finder) countTemplate(ctx context.Context, words []string) {
	if f.unreachable {
		return
	}
	const known = 3 // words are known to be one token each: a few are enough to see what else a prompt has
	s := &wordFinder{
		countPrompt:  f.measure,
		requestsLeft: f.requestsLeft(),
		perRound:     min(known, len(words)),
		words:        words,
	}
	err := s.findFirst(ctx)
	if err == nil {
		err = s.confirm(ctx)
	}
	if err != nil {
		f.note("What the server adds to a prompt is not known: %v.", brief(err))
		return
	}
	f.found.Preparation.TemplateTokens = new(uint32(s.base - 1))
}
