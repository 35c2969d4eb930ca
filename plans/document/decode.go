package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"buf.build/go/protoyaml"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
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

// decode fills msg. It returns what the decoder reported, and whether the decoder reached the end of data.
func decode(path string, data []byte, msg proto.Message) (found Mistakes, ended bool) {
	err := func() (err error) {
		defer recoverMistake(path, &err)
		return protoyaml.UnmarshalOptions{}.Unmarshal(data, msg)
	}()
	var panicked Mistakes
	if errors.As(err, &panicked) {
		return panicked, false
	}
	// The decoder copies the whole line into each error, so a long line full of mistakes would cost gigabytes.
	for _, e := range split(err)[:min(len(split(err)), mostShown)] {
		found = append(found, decodeMistake(path, e))
	}
	return found, true
}

func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

var decodeError = regexp.MustCompile(`^:(\d+):(\d+) ([^\n]*)`)

// decodeMistake reads the position from a decoder's error, whose first line is ":line:column message".
func decodeMistake(path string, err error) Mistake {
	m := Mistake{Path: path, Message: err.Error()}
	if part := decodeError.FindStringSubmatch(err.Error()); part != nil {
		m.Line, _ = strconv.Atoi(part[1])
		m.Column, _ = strconv.Atoi(part[2])
		m.Message = part[3]
	}
	return m
}

// recoverMistake turns a panic of a YAML library into a mistake, because plans come from people and over the network.
// One known panic: protoyaml indexes the lines of the text for an error, but counts fewer kinds of line breaks than the
// YAML reader; checkText refuses those. recoverMistake guards library calls only, so that it hides no panic of our own
// code.
func recoverMistake(path string, err *error) {
	if r := recover(); r != nil {
		*err = Mistakes{{Path: path, Message: fmt.Sprintf("the YAML reader failed on this file: %v", r)}}
	}
}
