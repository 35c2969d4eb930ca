package config

import (
	"errors"
	"fmt"
)

// OutputLength is the length of outputs that end by themselves. It does not apply if the request says ignore_eos, or
// beyond the request's limit. Set either MeanShare or Mean.
type OutputLength struct {
	// MeanShare is the mean length of outputs as a share of their limit, above 0 and below 1. Each token is the last
	// with the same chance. 0, the default: outputs do not end by themselves.
	MeanShare float64 `flag:"output-share" help:"like --early-eos, but with this mean <share> of max_tokens: each token is the last with the same chance"`
	// Mean and Stddev are those of a lognormal distribution of lengths in tokens, before the limit applies. 0, the
	// default: outputs do not end by themselves.
	Mean   float64 `flag:"output-mean" help:"like --early-eos, but after a lognormal number of <tokens> with this mean, or at max_tokens"`
	Stddev float64 `flag:"output-stddev" help:"with --output-mean: its standard deviation in <tokens>"`
}

func (l *OutputLength) validate() error {
	var errs []error
	if !(l.MeanShare >= 0 && l.MeanShare < 1) {
		errs = append(errs, fmt.Errorf("simulator: OutputLength.MeanShare is %v: give 0 or more and less than 1",
			l.MeanShare))
	}
	errs = append(errs, checkFinite("OutputLength.Mean", l.Mean), checkFinite("OutputLength.Stddev", l.Stddev))
	if l.MeanShare > 0 && l.Mean > 0 {
		errs = append(errs, errors.New("simulator: OutputLength.MeanShare and OutputLength.Mean are both set: "+
			"give one of them"))
	}
	if l.Stddev > 0 && l.Mean == 0 {
		errs = append(errs, errors.New("simulator: OutputLength.Stddev is set without OutputLength.Mean: give both"))
	}
	return errors.Join(errs...)
}

// Textless is which tokens are streamed as a frame with empty text, as engines send halves of characters and special
// tokens. In APIs without such frames (responses and Anthropic's messages, as vLLM serves them), these tokens have no
// frame.
type Textless struct {
	// Share is the chance of each token to have no text, 0 (default) to 1.
	Share float64 `flag:"textless-share" help:"<share> of the tokens that are streamed without text, as halves of characters are"`
	// First and Last are the numbers of tokens at the start and at the end that never have text. Default 0.
	First int `flag:"textless-first" help:"<tokens> without text at the start of each output"`
	Last  int `flag:"textless-last" help:"<tokens> without text at the end of each output"`
}

func (t *Textless) validate() error {
	errs := []error{checkAtLeast("Textless.First", t.First, 0), checkAtLeast("Textless.Last", t.Last, 0)}
	return errors.Join(append(errs, checkShare("Textless.Share", t.Share))...)
}
