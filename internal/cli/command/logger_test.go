package command

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A log for people says what happened, why and about what, without time, level, and keys of the run.
func TestLogSentences(t *testing.T) {
	var out bytes.Buffer
	log, err := Logger(&out, "warn", Sentences)
	if err != nil {
		t.Fatal(err)
	}
	log.Info("not said")
	log = log.With("run", "r-1", "agent", "a").WithGroup("g")
	log.Warn("server metrics cannot be read", "url", "http://h", "waiting_bytes", 7, "region", "",
		"error", status.Error(codes.Internal, "refused"))
	log.Error("internal fault", "fault", "a \"quote\"", "stack", "main.go:1")
	want := "spate: server metrics cannot be read: refused (agent a, url http://h, waiting bytes 7)\n" +
		"spate: internal fault: a \"quote\" (agent a)\nmain.go:1\n"
	if out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
}

// People read log lines: neither format has numbers of enums or codes of gRPC.
func TestLogsAreReadable(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		log, err := Logger(&out, "info", format)
		if err != nil {
			t.Fatal(err)
		}
		broken := fmt.Errorf("no datasets: %w", status.Error(codes.Internal, "the disk is full"))
		log.Info("x", "outcome", spatev1.Outcome_OUTCOME_FAILED, "class", spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM,
			"odd", spatev1.Outcome(77), "error", broken, "none", error(nil), "other", errors.Join(broken))
		said := out.String()
		for _, want := range []string{"failed", "cut_stream", "77", "no datasets: the disk is full"} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: no %q in %s", format, want, said)
			}
		}
		if strings.Contains(said, "rpc error") || strings.Contains(said, `"outcome":2`) {
			t.Errorf("%s: %s", format, said)
		}
	}
}
