package failures

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// damagedPlan is small, and has everything that ledgers have: several stages, agents and windows.
const damagedPlan = `name: damaged
targets: [{name: t, model: m, endpoints: [http://127.0.0.1:1]}]
workloads: [{name: w, random: {isl: 20, osl: 5}}]
loads:
  - {concurrency: [1, 4], requests: 60}
  - {rate: [30], duration: 12s}
`

// A ledger of a real run is damaged in one bit 250 times, and truncated 200 times. Each time the damage is reported, or
// the contents are unchanged.
func TestDamageOfARealLedgerIsToldOrHarmless(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, damagedPlan, "--simulate=4", "--agents", "2")
	r.MustExit(0)
	path := filepath.Join(r.Dir, ledger.File)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := allOf(path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(13, 13))
	damaged, told := filepath.Join(t.TempDir(), ledger.File), 0
	try := func(what string, at int, data []byte) {
		if err := os.WriteFile(damaged, data, 0o600); err != nil {
			t.Fatal(err)
		}
		switch got, err := allOf(damaged); {
		case errors.Is(err, ledger.ErrDamaged), errors.Is(err, ledger.ErrForeign):
			told++
		case err != nil:
			t.Errorf("%s %d: %v", what, at, err)
		case !bytes.Equal(got, want):
			t.Errorf("%s %d: other content, and no word of it", what, at)
		}
	}
	for range 250 {
		bit := random.IntN(8 * len(whole))
		data := bytes.Clone(whole)
		data[bit/8] ^= 1 << (bit % 8)
		try("bit", bit, data)
	}
	t.Logf("bits: %d of 250 told", told)
	for range 200 {
		length := random.IntN(len(whole))
		try("cut", length, whole[:length])
	}
	t.Logf("bits and cuts: %d of 450 told", told)
	if told < 100 {
		t.Error("too few are told to show anything")
	}
}

// allOf reads everything in a ledger that files are made from.
func allOf(path string) ([]byte, error) {
	l, err := ledger.OpenReadOnly(path)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	result, err := results.Of(l)
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(result)
	for _, stage := range result.Stages {
		err = errors.Join(err, l.Rows(stage.Index, func(s *spatev1.Snapshot, rows [][]byte) error {
			text, err := proto.MarshalOptions{Deterministic: true}.Marshal(s)
			out = append(append(out, text...), bytes.Join(rows, nil)...)
			return err
		}))
	}
	return out, errors.Join(err, l.Events(0, func(e *spatev1.FollowRunResponse) error {
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(e)
		out = append(out, text...)
		return err
	}))
}

// The program reports a damaged ledger, and makes no file from it.
func TestDamagedLedgerIsReported(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, damagedPlan, "--simulate=4", "--agents", "2")
	r.MustExit(0)
	damageAgent(t, filepath.Join(r.Dir, ledger.File), "embedded-2")
	before := programs.Result(t, r.Dir)
	p := process.Start(t, programs.Built.Spate, "report", r.Dir)
	p.MustExit(1)
	for _, part := range []string{"the ledger is damaged: of ", " snapshots ", "restore " + filepath.Join(r.Dir, ledger.File)} {
		if !strings.Contains(p.Printed(), part) {
			t.Errorf("it does not say %q: %s", part, p.Printed())
		}
	}
	if after := programs.Result(t, r.Dir); !reflect.DeepEqual(before, after) {
		t.Error("results.json has changed")
	}
}

// damageAgent changes a bit of each of an agent's snapshots that it can find by the agent's name in the key.
func damageAgent(t *testing.T, path, agent string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	field := append([]byte{0x12, byte(len(agent))}, agent...) // field 2 of a key
	for rest := data; ; {
		at := bytes.Index(rest, field)
		if at < 0 {
			break
		}
		rest = rest[at+len(field):]
		rest[2] ^= 1 // within the process's number
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
