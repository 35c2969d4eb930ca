package torture

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/spate-load/spate/aggregate"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/simulator"
)

// Evidence is what a run left behind, and what is known of it from elsewhere.
type Evidence struct {
	Script Script
	// Result, Rows and Records are those of the run directory: results.json, the request rows, and the stages of the ledger.
	Result  aggregate.Result
	Rows    []Row
	Records []*spatev1.StageRecord
	// Served is what the simulator had, in any order.
	Served []Served
	// Live is the last progress of each stage that followers of the run were told; Ended its end. Both may be missing where the coordinator
	// died right then.
	Live  map[uint32]*spatev1.StageProgress
	Ended *spatev1.RunEnded
	// End is when the run had ended, at the latest.
	End clock.Instant
	// Gone are the times in which there was no coordinator.
	Gone []Span
	// Disk says that the coordinator's disk was filled up before the run had ended.
	Disk bool
	// Struck are the faults that happened while the run went on, by kind, and what was done to messages.
	Struck map[Kind]int
	// Frozen are the agents that were stopped for a time: they may be behind their schedules.
	Frozen map[string]bool
}

// Span is a time.
type Span struct{ From, To clock.Instant }

// ID names a request of a run.
type ID struct {
	Stage uint32
	Index uint64
}

// Served is a request that the simulator had.
type Served struct {
	ID
	Received, Ended clock.Instant
	// Answered says that the answer was sent to its end.
	Answered bool
}

// ServedOf picks a run's requests out of the simulator's records. Others are those by which agents find out about the target.
func ServedOf(run string, records []simulator.Record) []Served {
	var out []Served
	for _, r := range records {
		rest, ok := strings.CutPrefix(r.RequestID, run+"-")
		stage, index, ok2 := strings.Cut(rest, "-")
		s, err1 := strconv.ParseUint(stage, 10, 32)
		i, err2 := strconv.ParseUint(index, 10, 64)
		if !ok || !ok2 || err1 != nil || err2 != nil {
			continue
		}
		out = append(out, Served{
			ID: ID{uint32(s), i}, Received: r.Received, Ended: r.Ended, Answered: r.FinishReason != "" && !r.Cancelled && r.Fault == "",
		})
	}
	return out
}

// Row is a request row, as far as it is looked at.
type Row struct {
	Stage       uint32  `json:"stage" parquet:"stage"`
	Index       uint64  `json:"index" parquet:"index"`
	Agent       string  `json:"agent" parquet:"agent"`
	Unmeasured  bool    `json:"unmeasured" parquet:"unmeasured"`
	ScheduledNs int64   `json:"scheduled_ns" parquet:"scheduled_ns"`
	StartNs     int64   `json:"start_ns" parquet:"start_ns"`
	EndNs       int64   `json:"end_ns" parquet:"end_ns"`
	ErrorClass  *string `json:"error_class" parquet:"error_class,optional"`
	Cancelled   bool    `json:"cancelled" parquet:"cancelled"`
}

// ID names the request.
func (r Row) ID() ID { return ID{r.Stage, r.Index} }

// Completed says that the request ended as it should.
func (r Row) Completed() bool { return r.ErrorClass == nil && !r.Cancelled }

// Read reads a run directory into the evidence.
func (e *Evidence) Read(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err == nil {
		err = json.Unmarshal(data, &e.Result)
	}
	if err != nil {
		return err
	}
	if e.Rows, err = ReadRows(dir, e.Script.Records); err != nil {
		return err
	}
	ledger, err := aggregate.OpenReadOnly(filepath.Join(dir, "ledger.db"))
	if err != nil {
		return err
	}
	e.Records, err = ledger.Stages()
	return errors.Join(err, ledger.Close())
}

// ReadRows reads the request rows of a run directory.
func ReadRows(dir, form string) ([]Row, error) {
	path := filepath.Join(dir, "requests."+form)
	if form == "parquet" {
		return parquet.ReadFile[Row](path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []Row
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var r Row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		rows = append(rows, r)
	}
	return rows, lines.Err()
}

// startOf is a stage's start on this machine's monotonic clock, false if it has none. The ledger has it by the wall clock.
func startOf(rec *spatev1.StageRecord) (clock.Instant, bool) {
	if rec.GetStartTime() == nil {
		return 0, false
	}
	return clock.Now().Add(-time.Since(rec.GetStartTime().AsTime())), true
}
