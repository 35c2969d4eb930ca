package clustercmd

import (
	"bytes"
	"errors"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"encoding/json"
	"fmt"
	"io"
)

// outputFlag is the form in which a list is printed: "table" for people, "json" for programs, in the form of REST.
type outputFlag struct {
	Output string `flag:"output" default:"table" oneof:"table, json" help:"<form> of the list: table, or json as REST has it"`
}

// writeJSON prints a message as REST has it, indented: what has its default value is written, what is not known is left
// out.
func writeJSON(w io.Writer, m proto.Message) error {
	text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	var out bytes.Buffer
	if err := errors.Join(err, json.Indent(&out, text, "", "  ")); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	_, err = fmt.Fprintln(w, out.String())
	return err
}
