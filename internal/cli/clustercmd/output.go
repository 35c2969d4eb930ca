package clustercmd

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// outputFlag is the form in which a list is printed: "table" for people, "json" for programs.
type outputFlag struct {
	Output string `flag:"output" default:"table" oneof:"table, json" help:"<form> of the list: table or json"`
}

// writeJSON prints a value, indented.
func writeJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	return nil
}

// stamp formats a time in RFC 3339 and UTC. nil: the time is not known, or has not come.
func stamp(t *timestamppb.Timestamp) *string {
	if t == nil {
		return nil
	}
	text := t.AsTime().Format(time.RFC3339)
	return &text
}

// given returns a pointer to a value, or nil for the zero value, which means that there is none.
func given[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
