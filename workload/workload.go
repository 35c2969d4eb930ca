// Package workload makes the content of requests.
//
// Request i of a stage is a pure function of the stage's seed, the workload's rows and i. So any agent can make any
// request, and the same seed makes the same requests on every machine and with any number of agents. There are two
// exceptions: a session whose history holds the server's answers also depends on those answers, and a request that must
// miss every cache also depends on Config.Run. The package sends nothing and knows no server. Agents ask it for prompts
// while they send.
//
// A prompt is made of tokens: number j of a random sequence selects a word or a token id, depending on the prompt's
// form. Shared parts of requests (a prefix, a system prompt, the history of a session) are drawn from a shared
// sequence. Lengths are drawn from separate sequences, so that lengths do not depend on content.
package workload

import (
	"fmt"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/draw"
	"github.com/spate-load/spate/workload/rows"
)

// Form is the JSON form in which an API takes prompts.
type Form uint8

const (
	// Text is a JSON string.
	Text Form = iota
	// TokenIDs is a JSON array of token numbers.
	TokenIDs
	// Messages is a JSON array of the messages of a chat.
	Messages
)

// Config configures a workload.
type Config struct {
	// Workload is the workload as the plan defines it.
	Workload *spatev1.Workload
	// Seed is the seed of the stage.
	Seed uint64
	// Form is the form in which the target takes prompts. New returns an error for content that cannot be written in
	// it.
	Form Form
	// Words are the words of text prompts. Each is one token behind a space. Empty: the package's own words.
	Words []string
	// FirstWords are words that are one token each at the start of a prompt or message. Empty: Words.
	FirstWords []string
	// LineTokens are the lengths, in tokens, of the lines of a sonnet's text, by row. Each is counted behind a line
	// feed. Empty: the lengths in the rows, or estimates.
	LineTokens []uint32
	// Template is the number of tokens that the server adds to each prompt. Prompts are that much shorter than the ISL.
	Template uint32
	// Run uniquely names the run and the stage in it. Stages with equal seeds may be sent to targets that are one
	// server, so the unique start of requests that must miss every cache is drawn from Run.
	Run string
	// Rows are the rows of the workload's file. Nil: the workload has no file. The workload closes the rows. If New
	// fails, the caller closes them.
	Rows *rows.File
	// PartRows and PartLineTokens are the Rows and LineTokens of a mixture's parts, in the order of the parts.
	PartRows       []*rows.File
	PartLineTokens [][]uint32
	// Traces is the order of the arrivals of a mixture whose traces are replayed. Nil: parts go by weight.
	Traces *Traces
}

// Request names a request and the form to write it in.
type Request struct {
	// Index is the index of the arrival.
	Index uint64
	// Turn is the turn of the session, from 0.
	Turn int
	// Form is the form of the prompt: one that New accepts for the workload.
	Form Form
	// Answers are the server's answers by turn, each as it stood between the quotes of a JSON string. Those that the
	// request waits for must be there. Nil elements: the turn had no answer, or none yet.
	Answers [][]byte
}

// Spec is what a request asks the server for.
type Spec struct {
	// ISL is the length of the prompt in tokens as the server will count it, at least one token more than the template.
	// 0: not known.
	ISL uint32
	// OSL is the length of the output in tokens, at least 1.
	OSL uint32
	// Shared is the number of tokens at the start of the prompt that an earlier request of the stage started with too.
	Shared uint32
	// Texts is the number of texts of the request. 0: the workload sets no number.
	Texts uint32
	// Turns is the number of requests that the arrival makes one after another: 1, or the number of turns of its
	// session.
	Turns int
	// Pause is the time between the end of the previous turn and this request. In a session that branches, it counts
	// from the last end of those that the request waits for, or from the session's start if it waits for none.
	Pause time.Duration
	// Previous is one more than the turn whose answer by the server stands in the prompt last; its own prompt is the
	// history before that. 0: the prompt has no answers, or planned ones. ISL and Shared assume that each answer has
	// the length that was asked for.
	Previous int
	// NotBefore is the time since the session's start before which the request does not start. 0: none.
	NotBefore time.Duration
	// Branches reports whether the session has requests that do not wait for the one before them, or not for it alone:
	// the workload is a Brancher.
	Branches bool
	// Images is the number of images beside the text. Text is then the length of the prompt without them, like ISL.
	Images, Text uint32
	// Fields: the request's body has further fields, which Fielder appends.
	Fields bool
	// Part is the index of the part of the mixture, Variant that of the request's variant among content.Variants. 0 if
	// the workload is not a mixture.
	Part, Variant int
}

// Workload makes requests. It is safe for concurrent use. The caller closes it.
type Workload interface {
	// Spec returns what a request asks for. It returns an error if the request's row cannot be read.
	Spec(index uint64, turn int) (Spec, error)
	// AppendPrompt appends the prompt of a request as one JSON value and returns the extended slice. It allocates only
	// to grow dst. It returns an error if the request's row cannot be read.
	AppendPrompt(dst []byte, r Request) ([]byte, error)
	// Close closes the workload's files.
	Close() error
}

// Fielder is a workload some of whose requests have fields of their own, such as tools.
type Fielder interface {
	// AppendFields appends the fields of a request, whose Spec has Fields set, to its body, a JSON object, and returns
	// the extended slice. It returns an error if the request's row cannot be read.
	AppendFields(body []byte, index uint64, turn int) ([]byte, error)
}

// Brancher is a workload whose sessions may branch: several requests of a session may be in flight.
type Brancher interface {
	// Waits returns, for each request of a session, the turns that must have ended before it starts, all of them lower
	// numbers. It returns an error if the session's row cannot be read.
	Waits(index uint64) ([][]int, error)
}

// New returns a workload. It returns an error if the kind of content is unknown or the content cannot be made.
func New(c Config) (Workload, error) {
	_, of := content.Of(c.Workload)
	switch of := of.(type) {
	case *spatev1.RandomContent:
		return checked(newRandom(of, c))
	case *spatev1.SessionContent:
		return checked(newSessions(of, c))
	case *spatev1.FileContent:
		return checked(newPrompts(of, c))
	case *spatev1.TraceContent:
		return checked(newTrace(of, c))
	case *spatev1.SonnetContent:
		return checked(newSonnet(of, c))
	case *spatev1.Mixture:
		return checked(newMixture(of, c))
	default:
		return nil, fmt.Errorf("workload: %q has no content that this version knows", c.Workload.GetName())
	}
}

// checked returns a nil interface with an error, and not an interface that holds a nil pointer.
func checked[W Workload](w W, err error) (Workload, error) {
	if err != nil {
		return nil, err
	}
	return w, nil
}

// grouper is a workload in which some prompts start alike.
type grouper interface {
	group(index uint64) (group uint64, grouped bool, err error)
}

// Group returns a number that is common to all prompts that were made to start like the prompt of this arrival: its
// prefix group, or its first block in a trace with blocks. Grouped is false if the prompt was made to share nothing.
// Group returns an error if the arrival's row cannot be read.
func Group(w Workload, index uint64) (group uint64, grouped bool, err error) {
	g, ok := w.(grouper)
	if !ok {
		return 0, false, nil
	}
	return g.group(index)
}

func (w *random) group(index uint64) (group uint64, grouped bool, err error) { //nolint:unparam // a grouper's
	if w.prefixes == nil {
		return 0, false, nil
	}
	group, grouped = w.prefixes.group(index)
	return group, grouped, nil
}

func (w *trace) group(index uint64) (group uint64, grouped bool, err error) {
	if w.busting.on {
		return 0, false, nil
	}
	row := w.row()
	defer w.read.Put(row)
	if err := w.rows.Read(index%w.rows.Len(), row); err != nil {
		return 0, false, err
	}
	if row.Kind == rows.Steps {
		if err := row.OpenStep(0); err != nil {
			return 0, false, err
		}
	}
	if row.Kind != rows.Blocks || len(row.Blocks) == 0 {
		return 0, false, nil
	}
	return blockGroups.At(row.Blocks[0]), true, nil
}

// blockGroups hashes block ids to groups. Block ids have gaps: if all rows have the same number of blocks, their first
// ids are equally far apart, and id modulo that number would be the same for all.
var blockGroups = draw.New(0, "block")
