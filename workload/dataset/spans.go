package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// spans are the spans of OTLP JSON: one object, or several behind one another, each with resourceSpans or the like.
// Only one span is in memory.
type spans struct {
	src     *limitedRecord
	dec     *json.Decoder
	number  uint64
	depth   int  // of objects and arrays
	within  bool // an array of spans
	started bool
}

// newSpans returns the spans of OTLP JSON.
func newSpans(s *itemSource) (itemReader, error) {
	limited := &limitedRecord{Reader: s.Reader}
	return &spans{src: limited, dec: json.NewDecoder(limited)}, nil
}

// Unit returns "span".
func (s *spans) Unit() string { return "span" }

// Next returns the next span.
func (s *spans) Next() (item, error) {
	it := item{Number: s.number + 1}
	if err := s.enter(); err != nil {
		return it, err
	}
	var span json.RawMessage
	if err := s.dec.Decode(&span); err != nil {
		return it, s.explain(err)
	}
	s.number, s.started = s.number+1, true
	it.Text, it.TooLong = span, len(span) > maxUsed
	return it, nil
}

// enter reads up to the next span.
func (s *spans) enter() error {
	for s.src.read = 0; !s.within || !s.dec.More(); s.src.read = 0 {
		token, err := s.token()
		switch {
		case errors.Is(err, io.EOF) && !s.started:
			return errors.New("it has no spans: give an export in OTLP JSON")
		case err != nil:
			return err
		case s.within: // the bracket behind the spans
			s.within = false
			continue
		case token != "spans":
			continue
		}
		if token, err = s.token(); err != nil {
			return err
		}
		s.within = token == json.Delim('[')
	}
	return nil
}

// token returns the next token of the JSON.
func (s *spans) token() (json.Token, error) {
	token, err := s.dec.Token()
	switch token {
	case json.Delim('{'), json.Delim('['):
		s.depth++
	case json.Delim('}'), json.Delim(']'):
		s.depth--
	}
	if errors.Is(err, io.EOF) && s.depth > 0 {
		err = io.ErrUnexpectedEOF
	}
	return token, s.explain(err)
}

// explain says where the JSON is wrong, or that it ends too early. The end of the source remains io.EOF.
func (s *spans) explain(err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("after span %d: it is not JSON: %w", s.number, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("after span %d: %w", s.number, explainEOF(err))
	}
	return err
}
