package command

import (
	"log"
	"os"
	"strings"
	"testing"
)

// What a server sends unasked is not logged. Other lines are.
func TestFilterLog(t *testing.T) {
	var text strings.Builder
	FilterLog(&text)
	defer log.SetOutput(os.Stderr)
	log.Printf("Unsolicited response received on idle HTTP channel starting with %q; err=%v", "secret", nil) // net/http
	log.Print("another line")
	if got := text.String(); strings.Contains(got, "secret") || !strings.Contains(got, "another line") {
		t.Errorf("%q", got)
	}
}
