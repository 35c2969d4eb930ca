package ledger

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// newLedger creates a ledger. A cleanup of the test closes it.
func newLedger(t testing.TB) (*Ledger, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, err := Create(path, Change{Run: fixture.RunRecord(1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, path
}

// held lists the keys of a stage's snapshots in a ledger.
func held(t testing.TB, l *Ledger, stage uint32) []string {
	t.Helper()
	keys := []string{}
	err := l.Measurements(stage, func(s *spatev1.Snapshot) error {
		keys = append(keys, fmt.Sprintf("%s/%d/%d", s.GetKey().GetAgent(), s.GetKey().GetIncarnation(),
			s.GetKey().GetSequence()))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestLedgerHoldsEachSnapshotOnceAndInOrder(t *testing.T) {
	l, _ := newLedger(t)
	for _, batch := range [][]*spatev1.Snapshot{
		{fixture.SnapshotOf(0, "b", 1, 300), fixture.SnapshotOf(0, "b", 1, 2)},
		{fixture.SnapshotOf(0, "a", 1, 1), fixture.SnapshotOf(0, "a", 1, 1), fixture.SnapshotOf(0, "ab", 1, 1),
			fixture.SnapshotOf(1, "a", 1, 2)},
		{fixture.SnapshotOf(0, "a", 2, 1), fixture.SnapshotOf(256, "a", 1, 9)},
		{},
	} {
		if _, err := l.Append(batch); err != nil {
			t.Fatal(err)
		}
	}
	fresh, err := l.Append([]*spatev1.Snapshot{fixture.SnapshotOf(0, "b", 1, 2), fixture.SnapshotOf(0, "b", 1, 3)})
	if err != nil || fmt.Sprint(fresh) != "[false true]" {
		t.Errorf("fresh %v, error %v", fresh, err)
	}
	for stage, want := range map[uint32]string{
		0:   "[a/1/1 a/2/1 ab/1/1 b/1/2 b/1/3 b/1/300]",
		1:   "[a/1/2]",
		256: "[a/1/9]",
		2:   "[]",
	} {
		if got := fmt.Sprint(held(t, l, stage)); got != want {
			t.Errorf("stage %d holds %s, want %s", stage, got, want)
		}
	}
}

func TestLedgerRefusesAContradictionAndNothingElse(t *testing.T) {
	l, _ := newLedger(t)
	if _, err := l.Append([]*spatev1.Snapshot{fixture.SnapshotOf(0, "a", 1, 1)}); err != nil {
		t.Fatal(err)
	}
	other := fixture.SnapshotOf(0, "a", 1, 1)
	other.PeakInFlight = 9
	// A transaction of the test holds the writer back, so that all three batches wait for one transaction.
	tx, err := l.db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	errs := make([]error, 3)
	for i, batch := range [][]*spatev1.Snapshot{
		{fixture.SnapshotOf(0, "a", 1, 2)},
		{fixture.SnapshotOf(0, "a", 1, 3), other},
		{fixture.SnapshotOf(0, "a", 1, 4)},
	} {
		all.Go(func() { _, errs[i] = l.Append(batch) })
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if errs[0] != nil || errs[2] != nil || !errors.Is(errs[1], ErrConflict) {
		t.Errorf("errors %v", errs)
	}
	if !strings.Contains(fmt.Sprint(errs[1]), `snapshot 1 of agent "a"`) {
		t.Errorf("the error does not name the snapshot: %v", errs[1])
	}
	if got := fmt.Sprint(held(t, l, 0)); got != "[a/1/1 a/1/2 a/1/4]" {
		t.Errorf("the ledger holds %s", got)
	}
}

func TestLedgerRefusesABatchThatContradictsItself(t *testing.T) {
	l, _ := newLedger(t)
	other := fixture.SnapshotOf(0, "a", 1, 1)
	other.PeakInFlight = 9
	if _, err := l.Append([]*spatev1.Snapshot{fixture.SnapshotOf(0, "a", 1, 1), other}); !errors.Is(err, ErrConflict) {
		t.Errorf("error %v", err)
	}
	if got := held(t, l, 0); len(got) != 0 {
		t.Errorf("the ledger holds %v", got)
	}
}

func TestEqualSnapshotsInAnotherOrderOfFieldsAreNoContradiction(t *testing.T) {
	l, _ := newLedger(t)
	s := fixture.SnapshotOf(0, "a", 1, 1)
	if _, err := l.Append([]*spatev1.Snapshot{s}); err != nil {
		t.Fatal(err)
	}
	key, err := proto.Marshal(&spatev1.Snapshot{Key: s.GetKey()})
	if err != nil {
		t.Fatal(err)
	}
	rest := proto.CloneOf(s)
	rest.Key = nil
	encoded, err := proto.Marshal(rest)
	if err != nil {
		t.Fatal(err)
	}
	err = l.db.Update(func(tx *bbolt.Tx) error { // as another build may have written it
		store := snapshotsOf(tx)
		at, err := unsealed(snapshotBucket, snapshotKey(0, s.GetKey()), store.places.Get(snapshotKey(0, s.GetKey())))
		k := writerOf(tx)
		return errors.Join(err, k.put(arrivalBucket, bytes.Clone(at), append(encoded, key...)), k.close())
	})
	if err != nil {
		t.Fatal(err)
	}
	if fresh, err := l.Append([]*spatev1.Snapshot{s}); err != nil || fresh[0] {
		t.Errorf("fresh %v, error %v", fresh, err)
	}
}

// Results that walk the ledger must not depend on the order of arrival.
func TestSnapshotsComeByNameWhateverTheirArrival(t *testing.T) {
	l, _ := newLedger(t)
	for _, name := range []string{"c 2", "a 1", "c 1", "b 1", "a 2"} {
		if _, err := l.Append([]*spatev1.Snapshot{fixture.SnapshotOf(0, name[:1], 1,
			uint64(name[2]-'0'))}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	err := l.Measurements(0, func(s *spatev1.Snapshot) error {
		got = append(got, fmt.Sprint(s.GetKey().GetAgent(), " ", s.GetKey().GetSequence()))
		return nil
	})
	if want := []string{"a 1", "b 1", "c 1", "a 2", "c 2"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, error %v, want %q", got, err, want)
	}
}

func TestLedgerKeepsRecords(t *testing.T) {
	l, path := newLedger(t)
	run := fixture.RunRecord(3)
	run.Reason = "because"
	for _, err := range []error{
		l.Put(Change{Stages: []*spatev1.StageRecord{fixture.StageRecord(1, 2)}}),
		l.Put(Change{Stages: []*spatev1.StageRecord{fixture.StageRecord(0, 1)}}),
		l.Put(Change{Stages: []*spatev1.StageRecord{fixture.StageRecord(0, 3)}}), l.Put(Change{Run: run}), l.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if got, err := again.Run(); err != nil || !proto.Equal(got, run) {
		t.Errorf("run %v, error %v", got, err)
	}
	stages, err := again.Stages()
	if err != nil || len(stages) != 2 || !proto.Equal(stages[0], fixture.StageRecord(0, 3)) ||
		!proto.Equal(stages[1], fixture.StageRecord(1, 2)) {
		t.Errorf("stages %v, error %v", stages, err)
	}
	if _, err := again.Append([]*spatev1.Snapshot{fixture.SnapshotOf(0, "a", 1, 1)}); err != nil {
		t.Error(err)
	}
}

func TestAppendAfterCloseAndOnAReaderFails(t *testing.T) {
	l, path := newLedger(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append([]*spatev1.Snapshot{fixture.SnapshotOf(0, "a", 1, 1)}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	reader, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	if _, err := reader.Append([]*spatev1.Snapshot{fixture.SnapshotOf(0, "a", 1, 1)}); err == nil {
		t.Error("a reader appends")
	}
	if _, err := reader.Append([]*spatev1.Snapshot{fixture.SnapshotOf(0, "", 1, 1)}); err == nil {
		t.Error("a nameless agent passes")
	}
}

// changedLedger returns the bytes of an empty ledger after a change.
func changedLedger(t *testing.T, change func(tx *bbolt.Tx) error) []byte {
	t.Helper()
	l, path := newLedger(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(change), db.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// putVersion returns a change that sets the ledger's layout.
func putVersion(value []byte) func(tx *bbolt.Tx) error {
	return func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(versionKey, value) }
}

// number returns the bytes of a number in the ledger.
func number(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// Files that are not ledgers of this program are refused by everything that opens ledgers, with what they are.
func TestOtherFilesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		says string
	}{
		"empty": {nil, "empty"},
		"text":  {bytes.Repeat([]byte("no ledger\n"), 9999), "not a ledger"},
		"another program's": {changedLedger(t, func(tx *bbolt.Tx) error {
			return errors.Join(tx.DeleteBucket(metaBucket), tx.DeleteBucket(inventoryBucket))
		}), "another program's"},
		"older": {changedLedger(t, putVersion(number(1))), "older Spate wrote it (layout 1"},
		"newer": {changedLedger(t, putVersion(sealed(metaBucket, versionKey, number(9)))),
			"newer Spate wrote it (layout 9"},
		"of other definitions": {changedLedger(t, func(tx *bbolt.Tx) error {
			k := writerOf(tx)
			return errors.Join(k.put(metaBucket, definitionsKey, number(measure.Definitions+1)), k.close())
		}), fmt.Sprintf("measured by definitions %d, and this program uses %d", measure.Definitions+1,
			measure.Definitions)},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			peek := func(path string) (*Ledger, error) {
				return nil, Peek(path, func(*Ledger) error { t.Error("it is read"); return nil })
			}
			for _, open := range []func(string) (*Ledger, error){Open, OpenReadOnly, peek} {
				l, err := open(path)
				if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), c.says) ||
					!strings.Contains(err.Error(), path) {
					t.Errorf("ledger %v, error %v", l, err)
				}
			}
		})
	}
}

func TestOpenNeedsAFileAndCreateNeedsNone(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "ledger.db")
	for _, open := range []func(string) (*Ledger, error){Open, OpenReadOnly} {
		if _, err := open(absent); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("error %v", err)
		}
	}
	if _, err := os.Stat(absent); err == nil {
		t.Error("Open made a file")
	}
	_, path := newLedger(t)
	if _, err := Create(path, Change{Run: fixture.RunRecord(1)}); !errors.Is(err, os.ErrExist) {
		t.Errorf("error %v", err)
	}
}

// A process killed while it creates a ledger leaves no ledger, and its leftovers do not prevent another Create.
func TestALedgerIsWholeOnceItHasItsName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(path+".new", []byte("cut short"), 0o600); err != nil {
		t.Fatal(err)
	}
	seen := make(chan []byte, 1)
	go func() {
		for t.Context().Err() == nil {
			if content, err := os.ReadFile(path); err == nil {
				seen <- content
				return
			}
		}
	}()
	l, err := Create(path, Change{Run: fixture.RunRecord(1), Submission: &spatev1.Submission{Name: "first"}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	early := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(early, <-seen, 0o600); err != nil {
		t.Fatal(err)
	}
	whole, err := OpenReadOnly(early)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	if s, err := whole.Submission(); err != nil || s.GetName() != "first" {
		t.Errorf("submission %v, %v", s, err)
	}
	if _, err := os.Stat(path + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the unnamed file is still there: %v", err)
	}
}

func TestALedgerInUseIsSaidToBe(t *testing.T) {
	_, path := newLedger(t)
	for _, open := range []func(string) (*Ledger, error){Open, OpenReadOnly} {
		if _, err := open(path); !errors.Is(err, ErrLocked) {
			t.Errorf("error %v", err)
		}
	}
}

// After a panic of what reads its records, a ledger is not locked.
func TestAPanicLeavesNoLedgerLocked(t *testing.T) {
	l, path := newLedger(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the reader's panic is lost")
			}
		}()
		_ = Peek(path, func(*Ledger) error { panic("reader") })
	}()
	if l, err := Open(path); err != nil {
		t.Error(err)
	} else if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// appendUntilKilled is the environment variable that makes this program append to the ledger at its value until the
// program is killed.
const appendUntilKilled = "SPATE_TEST_APPEND"

// appendForever appends from several goroutines and prints each sequence number once it is durable.
func appendForever(path string) {
	l, err := Open(path)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	var out sync.Mutex
	for g := range 4 {
		go func() {
			for n := uint64(1); ; n++ {
				s := fixture.SnapshotOf(0, fixture.AgentName(g), 1, n)
				s.Records = []*spatev1.RequestRecord{{Error: strings.Repeat("x", int(n*977%9000))}}
				if _, err := l.Append([]*spatev1.Snapshot{s}); err != nil {
					fmt.Println(err)
					os.Exit(1)
				}
				out.Lock()
				fmt.Printf("%s/1/%d\n", fixture.AgentName(g), n)
				out.Unlock()
			}
		}()
	}
	select {}
}

func TestKilledProcessLosesNothingThatWasAcked(t *testing.T) {
	l, path := newLedger(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, acks := range []int{1, 57, 230} {
		first := heldAt(t, path)
		acked := killAfter(t, path, acks)
		keys := heldAt(t, path)
		count := make(map[string]int)
		for _, k := range keys {
			count[k]++
		}
		for _, k := range append(first, acked...) {
			if count[k] != 1 {
				t.Errorf("%s was acked and is there %d times", k, count[k])
			}
		}
	}
}

// heldAt lists the keys of stage 0 in the ledger at a path.
func heldAt(t *testing.T, path string) []string {
	t.Helper()
	l, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return held(t, l, 0)
}

// killAfter starts a process that appends, kills it after a number of acks, and returns all keys that it acked.
func killAfter(t *testing.T, path string, acks int) (acked []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), appendUntilKilled+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if !strings.Contains(lines.Text(), "/1/") {
			t.Fatalf("the process says %s", lines.Text())
		}
		acked = append(acked, lines.Text())
		if len(acked) == acks {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // an error, because it was killed
	return acked
}
