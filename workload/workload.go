// Package workload makes the content of requests.
//
// Request i of a stage is a pure function of the stage's seed and i: any agent can make any request, and the same seed makes
// the same requests on every machine and whatever the number of agents. The package sends nothing, keeps nothing and knows
// no server. Agents ask it for prompts while they send.
package workload

import (
	"fmt"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Form is how an API takes prompts.
type Form uint8

const (
	// Text is a JSON string.
	Text Form = iota
	// TokenIDs is a JSON array of token numbers.
	TokenIDs
)

// Workload makes requests. It is safe for concurrent use.
type Workload interface {
	// AppendPrompt appends the prompt of a request as one JSON value, and returns the extended slice. It allocates only to
	// grow dst.
	AppendPrompt(dst []byte, index uint64, form Form) []byte
	// Lengths returns how many tokens are asked of a request: in its prompt and in its output.
	Lengths(index uint64) (isl, osl uint32)
}

// New returns the workload of a stage with this seed. It is an error if the content is of a kind that is not known, or
// cannot be made.
func New(w *spatev1.Workload, seed uint64) (Workload, error) {
	switch content := w.GetContent().(type) {
	case *spatev1.Workload_Random:
		return newRandom(content.Random, seed)
	default:
		return nil, fmt.Errorf("workload: %q has no content this version knows: give it random", w.GetName())
	}
}
