// Package workload makes the content of requests.
//
// Request i of a stage is a pure function of the stage's seed, the workload's rows and i: any agent can make any
// request, and the same seed makes the same requests on every machine and whatever the number of agents. Only a session
// whose history is what the server answered depends on more: on those answers; and a request that is to miss every
// cache on Config.Run. The package sends nothing and knows no server. Agents ask it for prompts while they send.
//
// A prompt is made of tokens: number j of a sequence of random numbers is a word or a token id, by the form of the
// prompt. What requests have in common (a prefix, a system prompt, the history of a session) is drawn from a sequence
// that they have in common. Lengths are drawn from sequences of their own, so that the content does not change them.
package workload

import (
	"fmt"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/dataset"
)

// Form is how an API takes prompts.
type Form uint8

const (
	// Text is a JSON string.
	Text Form = iota
	// TokenIDs is a JSON array of token numbers.
	TokenIDs
	// Messages is a JSON array of the messages of a chat.
	Messages
)

// Config is what a workload is made of.
type Config struct {
	// Workload is the plan's.
	Workload *spatev1.Workload
	// Seed of the stage.
	Seed uint64
	// Form that the target takes prompts in: what cannot be written in it is an error of New.
	Form Form
	// Words that are one token each behind a space, for prompts of text. Empty: the package's own.
	Words []string
	// First are words that are one token each at the start of a prompt or message. Empty: Words.
	First []string
	// Lines are the lengths of the lines of a sonnet's text in tokens, each behind a line feed, by row. Empty: those of
	// the rows, or estimates.
	Lines []uint32
	// Template is how many tokens the server adds to each prompt: prompts are so much shorter than the ISL.
	Template uint32
	// Run names the stage's run, and the stage in it, like no other: stages of equal seeds are sent to targets that may
	// be one server. What requests begin with that are to miss every cache is drawn from it.
	Run string
	// Rows of the workload's file. Nil: it takes none. The workload closes them; if New fails, whoever opened them
	// does.
	Rows *dataset.Rows
}

// Request names a request and how it is to be written.
type Request struct {
	// Index of the arrival.
	Index uint64
	// Turn of its session, from 0.
	Turn int
	// Form of the prompt.
	Form Form
	// Answers of the server to the turns before, each as it stood between the quotes of JSON strings. Nil elements: the
	// turn had none.
	Answers [][]byte
}

// Ask is what a request asks for.
type Ask struct {
	// ISL is the length of the prompt in tokens, as the server is to count it: at least one token more than the
	// template. 0: not known.
	ISL uint32
	// OSL is the length of the output in tokens, at least 1.
	OSL uint32
	// Shared is how many of the prompt's first tokens an earlier request of the stage began with too.
	Shared uint32
	// Turns is how many requests the arrival makes one after another: 1, or those of its session.
	Turns int
	// Pause is the time between the end of the turn before and this request.
	Pause time.Duration
}

// Workload makes requests. It is safe for concurrent use. The caller closes it.
type Workload interface {
	// Ask returns what a request asks for. An error: its row cannot be read.
	Ask(index uint64, turn int) (Ask, error)
	// AppendPrompt appends the prompt of a request as one JSON value, and returns the extended slice. It allocates only
	// to grow dst. An error: its row cannot be read.
	AppendPrompt(dst []byte, r Request) ([]byte, error)
	// Close lets go of the files.
	Close() error
}

// New returns a workload. It is an error if the content is of a kind that is not known, or cannot be made.
func New(c Config) (Workload, error) {
	switch content := c.Workload.GetContent().(type) {
	case *spatev1.Workload_Random:
		return checked(newRandom(content.Random, c))
	case *spatev1.Workload_Sessions:
		return checked(newSessions(content.Sessions, c))
	case *spatev1.Workload_Sharegpt:
		return checked(newPrompts(content.Sharegpt, c))
	case *spatev1.Workload_Jsonl:
		return checked(newPrompts(content.Jsonl, c))
	case *spatev1.Workload_Mooncake, *spatev1.Workload_Burstgpt, *spatev1.Workload_Azure:
		return checked(newTrace(c))
	case *spatev1.Workload_Sonnet:
		return checked(newSonnet(content.Sonnet, c))
	default:
		return nil, fmt.Errorf("workload: %q has no content this version knows", c.Workload.GetName())
	}
}

// checked returns a workload, or nil with an error.
func checked[W Workload](w W, err error) (Workload, error) {
	if err != nil {
		return nil, err
	}
	return w, nil
}
