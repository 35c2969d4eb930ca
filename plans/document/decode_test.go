package document

import (
	"strings"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// TestDecoderPanicIsAMistake: the decoder panics on this text, which is why checkText refuses it earlier.
func TestDecoderPanicIsAMistake(t *testing.T) {
	found, ended := decode("p", []byte("name: a\rseed: x\r"), &spatev1.Plan{})
	if ended || len(found) != 1 || !strings.Contains(found[0].Error(), "p: the YAML reader failed on this file") {
		t.Errorf("ended %v, found %v", ended, found)
	}
}
