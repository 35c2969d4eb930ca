package delivery_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/delivery"
)

var quiet = slog.New(slog.DiscardHandler)

// memory is a database in memory. Its rows are texts, one a line.
type memory struct {
	kind string

	mu    sync.Mutex
	down  error           // what Send returns; nil: the database works
	hangs bool            // Send blocks until its context ends
	bad   map[string]bool // rows that are refused
	says  bool            // the database says how many points it dropped, and takes the others
	rows  []string        // rows taken
	sizes []int           // rows of each request taken
}

func (m *memory) Kind() string                { return m.kind }
func (m *memory) Name() string                { return "Database " + m.kind }
func (m *memory) Place() string               { return "memory" }
func (m *memory) Check(context.Context) error { return nil }
func (m *memory) Close()                      {}

func (m *memory) Stores(string, *sink.Field) bool { return true }

func (m *memory) Append(dst []byte, row *sink.Row) ([]byte, error) {
	switch row.Measurement {
	case "empty":
		return dst, nil
	case "inexpressible":
		return dst, errors.New("no")
	}
	return append(append(dst, row.Measurement...), '\n'), nil
}

func (m *memory) Send(ctx context.Context, body []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if m.down != nil {
		return m.down
	}
	rows := strings.Fields(string(body))
	good := slices.DeleteFunc(slices.Clone(rows), func(row string) bool { return m.bad[row] })
	refused := &delivery.RefusedError{Err: errors.New("bad row")}
	switch {
	case len(good) < len(rows) && !m.says:
		return refused
	case len(good) < len(rows):
		refused.Points = len(rows) - len(good)
	}
	m.rows, m.sizes = append(m.rows, good...), append(m.sizes, len(rows))
	if refused.Points > 0 {
		return refused
	}
	return nil
}

// taken returns the rows that the database has.
func (m *memory) taken() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.rows)
}

func (m *memory) set(down error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

// row is a point with one row.
type row string

func (r row) Rows() []sink.Row { return []sink.Row{{Measurement: string(r), Time: time.Unix(1, 0)}} }

// put puts rows with numbers [from, to) and returns their names.
func put(s sink.Sink, from, to int) (names []string) {
	for i := from; i < to; i++ {
		names = append(names, fmt.Sprintf("row%d", i))
		s.Put(row(names[len(names)-1]))
	}
	return names
}

// ledger is a replay of rows.
func ledger(ended bool, names ...string) func(func([]sink.Row) error) (bool, error) {
	return func(emit func([]sink.Row) error) (bool, error) {
		for _, name := range names {
			if !ended {
				break
			}
			if err := emit(row(name).Rows()); err != nil {
				return true, err
			}
		}
		return ended, nil
	}
}

func open(t *testing.T, config delivery.Config, databases ...delivery.Database) *delivery.Sink {
	t.Helper()
	if config.Log == nil {
		config.Log = quiet
	}
	if config.Replay == nil {
		config.Replay = func(func([]sink.Row) error) (bool, error) {
			t.Error("points are replayed without need")
			return false, nil
		}
	}
	s, err := delivery.Open(config, databases...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A database that is down for minutes gets every point in order when it is back, another database is not affected, and
// the log has one line when the failure begins and one when it ends.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		down, up := &memory{kind: "down", down: errors.New("away")}, &memory{kind: "up"}
		dir := t.TempDir()
		s := open(t, delivery.Config{RunDir: dir, Log: slog.New(slog.NewTextHandler(&text, nil))}, down, up)
		want := put(s, 0, 100)
		time.Sleep(5 * time.Minute) // of virtual time: the outage
		if !slices.Equal(up.taken(), want) || len(down.taken()) > 0 {
			t.Errorf("%d rows and %d rows", len(up.taken()), len(down.taken()))
		}
		if !delivery.Incomplete(dir) {
			t.Error("nothing says that a database may lack points")
		}
		down.set(nil)
		time.Sleep(5*time.Second + 1) // of virtual time: the longest back-off
		if !slices.Equal(down.taken(), want) {
			t.Errorf("5 s after the outage there are %d rows of %d", len(down.taken()), len(want))
		}
		want = append(want, put(s, 100, 110)...)
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if !slices.Equal(down.taken(), want) || !slices.Equal(up.taken(), want) {
			t.Errorf("%d rows and %d rows, want %d", len(down.taken()), len(up.taken()), len(want))
		}
		if delivery.Incomplete(dir) {
			t.Error("a database may still lack points")
		}
		for _, words := range []string{"cannot be written to; trying again", "can be written to again"} {
			if strings.Count(text.String(), words) != 1 {
				t.Errorf("the log has %q %d times", words, strings.Count(text.String(), words))
			}
		}
	})
}

// Points that do not fit into the queue are dropped, and come from the ledger when the run has ended.
func TestFullQueueIsReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, dir := &memory{kind: "db", down: errors.New("away")}, t.TempDir()
		s := open(t, delivery.Config{RunDir: dir, QueueBytes: 1000, Replay: ledger(true, "all", "points")}, db)
		put(s, 0, 100)
		synctest.Wait()
		db.set(nil)
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		n := len(db.rows)
		if n < 3 || n > 30 || !slices.Equal(db.rows[n-2:], []string{"all", "points"}) || delivery.Incomplete(dir) {
			t.Errorf("rows %v", db.rows)
		}
	})
}

// If an earlier process of the run did not deliver everything, the points of the run come from the ledger when the run
// has ended, and not before.
func TestResumedRunIsReplayed(t *testing.T) {
	dir, db := t.TempDir(), &memory{kind: "db"}
	killed := filepath.Join(dir, "db.incomplete") // by a process that was killed
	if err := os.WriteFile(killed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ended := range []bool{false, true} {
		s := open(t, delivery.Config{RunDir: dir, Replay: ledger(ended, "all", "points")}, db)
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if !ended && (len(db.rows) > 0 || !delivery.Incomplete(dir)) {
			t.Errorf("before the end: rows %v", db.rows)
		}
	}
	if !slices.Equal(db.rows, []string{"all", "points"}) || delivery.Incomplete(dir) {
		t.Errorf("rows %v", db.rows)
	}
}

// A failure that the log has got, such as that of a check at the start, is not told again.
func TestAFailureIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		s := open(t, delivery.Config{RunDir: t.TempDir(), Told: map[string]string{"db": "away"},
			Log: slog.New(slog.NewTextHandler(&text, nil))}, &memory{kind: "db", down: errors.New("away")})
		put(s, 0, 1)
		if err := s.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "never took any") || text.Len() > 0 {
			t.Errorf("%v\n%s", err, &text)
		}
	})
}

// Close waits 15 s for a database that does not come back, and 3 s for one that was never there. It says what is
// missing and what to do.
func TestDatabaseThatStaysAway(t *testing.T) {
	for name, want := range map[string]time.Duration{
		"down": 3 * time.Second, "hangs": 3 * time.Second, "goes down": 15 * time.Second, "then hangs": time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			db, dir := &memory{kind: "db"}, t.TempDir()
			s := open(t, delivery.Config{RunDir: dir}, db)
			if want > 3*time.Second {
				put(s, 0, 1)
				synctest.Wait() // the database takes the first point
			}
			db.mu.Lock()
			if db.hangs = strings.HasSuffix(name, "hangs"); !db.hangs {
				db.down = errors.New("away")
			}
			db.mu.Unlock()
			put(s, 0, 2500) // does not block
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := s.Close(ctx)
			var undelivered *delivery.UndeliveredError
			if !errors.As(err, &undelivered) || undelivered.Unsent != 2500 || undelivered.Refused != 0 ||
				!strings.Contains(err.Error(), "spate runs export "+dir) || !delivery.Incomplete(dir) {
				t.Errorf("%s: %v", name, err)
			}
			if waited := time.Since(begin); waited < want || waited > want+6*time.Second {
				t.Errorf("%s: waited %v", name, waited)
			}
		})
	}
}

// Rows that the database refuses are counted, and all others arrive in order, whether or not the database says how many
// it dropped.
func TestRefusedRowsAreIsolated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		db := &memory{bad: map[string]bool{}, says: rapid.Bool().Draw(t, "says")}
		count := rapid.IntRange(1, 60).Draw(t, "rows")
		var rows []sink.Row
		var want []string
		for i := range count {
			name := fmt.Sprintf("row%d", i)
			rows = append(rows, row(name).Rows()...)
			if db.bad[name] = rapid.IntRange(0, 9).Draw(t, "bad") == 0; !db.bad[name] {
				want = append(want, name)
			}
		}
		rows = append(rows, row("empty").Rows()[0], row("inexpressible").Rows()[0])
		w := delivery.NewWriter(db, 0, quiet)
		if err := errors.Join(w.Write(t.Context(), rows), w.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
		refused, why := w.Refused()
		if !slices.Equal(db.rows, want) || w.Written() != len(want) || refused != count-len(want)+1 || why == nil {
			t.Fatalf("%d rows, %d written, %d refused (%v); want %d", len(db.rows), w.Written(), refused, why, len(want))
		}
	})
}

// A sink's refused points are reported, and do not keep the run directory.
func TestRefusedPointIsReported(t *testing.T) {
	dir, db := t.TempDir(), &memory{kind: "db", bad: map[string]bool{"row1": true}}
	s := open(t, delivery.Config{RunDir: dir}, db)
	put(s, 0, 3)
	var undelivered *delivery.UndeliveredError
	if err := s.Close(t.Context()); !errors.As(err, &undelivered) || undelivered.Refused != 1 ||
		undelivered.Unsent != 0 || delivery.Incomplete(dir) {
		t.Errorf("%v", err)
	}
}

// A refused point that comes again from the ledger counts once.
func TestRefusedPointIsCountedOnce(t *testing.T) {
	db, dir := &memory{kind: "db", bad: map[string]bool{"row1": true}}, t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "db.incomplete"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, delivery.Config{RunDir: dir, Replay: ledger(true, "row0", "row1", "row2")}, db)
	put(s, 0, 3)
	var undelivered *delivery.UndeliveredError
	if err := s.Close(t.Context()); !errors.As(err, &undelivered) || undelivered.Refused != 1 || len(db.rows) != 4 {
		t.Errorf("%d rows, %v", len(db.rows), err)
	}
}

func TestRequestsAreBounded(t *testing.T) {
	db := &memory{}
	w := delivery.NewWriter(db, 0, quiet)
	for range 12000 {
		if err := w.Write(t.Context(), row("x").Rows()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Write(t.Context(), row(strings.Repeat("x", 1<<20)).Rows()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(db.sizes, []int{5000, 5000, 2001}) || w.Written() != 12001 {
		t.Errorf("requests of %v rows, %d written", db.sizes, w.Written())
	}
}

// A Writer stops when the database has failed for its patience, or when its context ends.
func TestWriterStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &memory{down: errors.New("away")}
		for patience, want := range map[time.Duration]time.Duration{0: 0, time.Minute: time.Minute} {
			begin, w := time.Now(), delivery.NewWriter(db, patience, quiet)
			err := errors.Join(w.Write(t.Context(), row("x").Rows()), w.Flush(t.Context()))
			if waited := time.Since(begin); !errors.Is(err, db.down) || waited < want || waited > want+5*time.Second {
				t.Errorf("patience %v: waited %v: %v", patience, waited, err)
			}
		}
		again := delivery.NewWriter(db, 15*time.Second, quiet)
		for range 2 { // patience starts again when the database has worked
			db.set(errors.New("away"))
			time.AfterFunc(10*time.Second, func() { db.set(nil) })
			if err := errors.Join(again.Write(t.Context(), row("x").Rows()), again.Flush(t.Context())); err != nil {
				t.Errorf("a short failure: %v", err)
			}
		}
		db.set(errors.New("away"))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		w := delivery.NewWriter(db, time.Hour, quiet)
		if err := errors.Join(w.Write(ctx, row("x").Rows()), w.Flush(ctx)); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

// Incomplete reports the file of any database, for any name of the directory.
func TestIncomplete(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want bool
	}{
		"no such file": {"influx.incomplete.txt", false},
		"a file":       {"influx.incomplete", true},
		"brackets [x]": {"other.incomplete", true},
	} {
		dir := filepath.Join(t.TempDir(), name)
		err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, c.file), nil, 0o600))
		if got := delivery.Incomplete(dir); got != c.want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if delivery.Incomplete(filepath.Join(t.TempDir(), "gone")) {
		t.Error("a run directory that does not exist is incomplete")
	}
}
