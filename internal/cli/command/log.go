package command

import (
	"bytes"
	"io"
	"log"
)

// FilterLog sends Go's own log to w, without what servers send unasked: net/http logs that as it is, and it may repeat
// a secret.
func FilterLog(w io.Writer) { log.SetOutput(asked{w}) }

type asked struct{ io.Writer }

// Write drops a line about an unsolicited answer.
func (a asked) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("Unsolicited response received")) {
		return len(line), nil
	}
	return a.Writer.Write(line)
}
