package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

// Sentences is the log format of programs that a person watches: what happened, why, and about what, in one line
// without time, level and keys of the run, which is the only one.
const Sentences = "sentences"

// sentenceHandler writes records as sentences.
type sentenceHandler struct {
	w     io.Writer // takes a line with each call
	level slog.Level
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (h *sentenceHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

// WithGroup implements slog.Handler. Names of attributes stay as they are.
func (h *sentenceHandler) WithGroup(string) slog.Handler { return h }

// WithAttrs implements slog.Handler.
func (h *sentenceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &sentenceHandler{h.w, h.level, slices.Concat(h.attrs, attrs)}
}

// Handle implements slog.Handler.
func (h *sentenceHandler) Handle(_ context.Context, r slog.Record) error {
	attrs := slices.Clone(h.attrs)
	r.Attrs(func(a slog.Attr) bool { attrs = append(attrs, a); return true })
	why, stack := "", ""
	var about []string
	for _, a := range attrs {
		value := strings.TrimSpace(readable(nil, a).Value.String())
		switch {
		case value == "", a.Key == "run", a.Key == "stage_index":
		case a.Key == "stack":
			stack = "\n" + value
		case a.Key == "error", a.Key == "reason", a.Key == "fault":
			why += ": " + value
		default:
			about = append(about, strings.ReplaceAll(a.Key, "_", " ")+" "+value)
		}
	}
	text := "spate: " + r.Message + why
	if len(about) > 0 {
		text += " (" + strings.Join(about, ", ") + ")"
	}
	_, err := fmt.Fprintln(h.w, text+stack)
	return err
}
