package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// parse returns the document node of data, which must hold one YAML document.
func parse(path string, data []byte) (document *yaml.Node, err error) {
	defer recoverMistake(path, &err)
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	document = &yaml.Node{}
	if err := decoder.Decode(document); errors.Is(err, io.EOF) {
		return nil, Mistakes{{Path: path,
			Message: "the plan is empty: it needs at least a name, targets, workloads and loads"}}
	} else if err != nil {
		return nil, syntaxMistakes(path, data, err)
	}
	var second yaml.Node
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, Mistakes{{Path: path, Line: second.Line, Column: second.Column,
			Message: "a second document starts here: a plan is one document; put each in its own file"}}
	case !errors.Is(err, io.EOF):
		return nil, syntaxMistakes(path, data, err)
	}
	return document, nil
}

// recoverMistake turns a panic of the YAML library into a mistake, because plans come from people and over the network.
// It guards library calls only, so that it hides no panic of our own code.
func recoverMistake(path string, err *error) {
	if r := recover(); r != nil {
		*err = Mistakes{{Path: path, Message: fmt.Sprintf("the YAML reader failed on this file: %v", r)}}
	}
}
