package access

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/peer"
)

// Entries stay over restarts, in their order, one on each line whatever they contain.
func TestEntriesStay(t *testing.T) {
	dir := t.TempDir()
	at := time.Date(2026, 3, 29, 10, 11, 12, 0, time.FixedZone("", 3600))
	for _, run := range []string{"a", "b\nc"} {
		var l AuditLog
		l.Open(dir)
		if err := l.Add(AuditEntry{Time: at, Action: Submit, Caller: Caller{By: "anna", Proof: Certificate}, Run: run}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "audit.jsonl"))
	want := `{"time":"2026-03-29T09:11:12Z","action":"submit","by":"anna","proof":"certificate","run":"a"}` + "\n" +
		`{"time":"2026-03-29T09:11:12Z","action":"submit","by":"anna","proof":"certificate","run":"b\nc"}` + "\n"
	if err != nil || string(text) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, text, want)
	}
}

// TestTornLine: an entry after one that was written in part, on a full disk, is kept.
func TestTornLine(t *testing.T) {
	var l AuditLog
	l.Open(t.TempDir())
	if err := os.WriteFile(l.path, []byte(`{"time":"2026-03-29T09:1`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, run := range []string{"a", "b"} {
		if err := l.Add(AuditEntry{Action: Submit, Run: run}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(l.path)
	if got := strings.Split(string(text), "\n"); err != nil || len(got) != 4 ||
		!strings.Contains(got[1], `"run":"a"`) || !strings.Contains(got[2], `"run":"b"`) {
		t.Errorf("%q, %v: want a and b on lines of their own", got, err)
	}
}

// A log that cannot be written says so, and one without a directory keeps nothing.
func TestUnwritable(t *testing.T) {
	var l AuditLog
	if err := l.Add(AuditEntry{Action: Stop}); err != nil {
		t.Errorf("without a directory: %v", err)
	}
	l.Open(filepath.Join(t.TempDir(), "missing"))
	if err := l.Add(AuditEntry{Action: Stop}); err == nil || !strings.Contains(err.Error(), "audit log") {
		t.Errorf("%v", err)
	}
}

// A caller is known by its address, and by the user that came with a token.
func TestCallerOf(t *testing.T) {
	ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 4711}})
	for want, ctx := range map[Caller]context.Context{
		{Proof: NoProof}: t.Context(), {Proof: NoProof, Address: "10.0.0.7:4711"}: ctx,
		{By: "anna", Proof: Token, Address: "10.0.0.7:4711"}:                  WithToken(ctx, "anna"),
		{By: strings.Repeat("x", 63), Proof: Token, Address: "10.0.0.7:4711"}: WithToken(ctx, strings.Repeat("x", 63)+"é"),
	} {
		if got := CallerOf(ctx); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for want, c := range map[string]Caller{
		"": {Proof: NoProof}, "anna": {By: "anna", Proof: Certificate}, "token": {Proof: Token},
		"token anna": {By: "anna", Proof: Token},
	} {
		if got := c.String(); got != want {
			t.Errorf("%+v is listed as %q, want %q", c, got, want)
		}
	}
	if got := CallerOf(ctx).Host(); got != "10.0.0.7" {
		t.Errorf("host %q", got)
	}
}
