// Package judge compares what a torture run reported with what is known from other sources: the drawn script, the
// simulator's own log, and what the harness itself did and was told.
//
// It shares no code with what it judges: it decodes results and rows itself, and computes schedules and shares again.
// Of this module it imports only package script; a test enforces that.
package judge

import (
	"crypto/sha256"

	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/spate-load/spate/e2e/torture/script"
)

// Evidence is everything that is known about a run.
type Evidence struct {
	// Script is drawn from its seed, and not stored with the rest.
	Script script.Script `json:"-"`
	// Results and Rows are what the run claims.
	Results Results
	Rows    []Row
	// Served is what the simulator logged, in any order.
	Served []Served
	// Notes are what the harness did and was told.
	Notes Notes
}

// Instant is a time on the machine's monotonic clock, in nanoseconds. The simulator's log and the notes use this clock.
type Instant int64

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Span is a time from one instant to another.
type Span struct {
	From Instant `json:"from"`
	To   Instant `json:"to"`
}

// Notes are what the harness did and was told.
type Notes struct {
	// RunID is the run's ID, as the coordinator listed it.
	RunID string `json:"run_id"`
	// WallNs is the wall clock at Instant, in Unix nanoseconds.
	WallNs  int64   `json:"wall_ns"`
	Instant Instant `json:"instant"`
	// End is an instant by which the run had ended.
	End Instant `json:"end"`
	// Struck are the faults that happened while the run was in progress.
	Struck []Strike `json:"struck"`
	// Stalls are the times in which the harness itself got no processor for a while. The programs may have got none
	// either.
	Stalls []Span `json:"stalls,omitempty"`
	// Told is the last progress of each stage that followers of the run received, by stage. Ended is what they received
	// at the run's end. Both may be missing if the coordinator died just then.
	Told  map[uint32]Progress `json:"told"`
	Ended *Ended              `json:"ended"`
	// ClientCode is the exit status of the client that submitted the run. nil: there was no such client.
	ClientCode *int `json:"client_code"`
	// Messages counts faults of messages, by kind.
	Messages map[string]int `json:"messages,omitempty"`
}

// Strike is a fault that happened.
type Strike struct {
	Kind script.Kind `json:"kind"`
	// Agent is its place in the script, if the fault affects one agent.
	Agent int `json:"agent"`
	// Delay is what the fault adds to each direction of a link, including jitter.
	Delay time.Duration `json:"delay,omitempty"`
	// Begun is an instant by which the fault had begun, as late as From or later: a busy machine may take seconds to
	// begin one.
	Begun Instant `json:"begun"`
	Span
}

// Progress is the last progress of a stage that followers received.
type Progress struct {
	// Ended counts requests that ended, including failed ones. Failed counts the failed ones.
	Ended  uint64 `json:"ended"`
	Failed uint64 `json:"failed"`
}

// Ended is what followers received at the run's end.
type Ended struct {
	Complete bool   `json:"complete"`
	Reason   string `json:"reason"`
}

// struck reports whether a fault of a kind happened.
func (n *Notes) struck(kind script.Kind) bool {
	return slices.ContainsFunc(n.Struck, func(s Strike) bool { return s.Kind == kind })
}

// instantOf returns the instant of a time on the wall clock.
func (n *Notes) instantOf(wall time.Time) Instant {
	return n.Instant + Instant(wall.UnixNano()-n.WallNs)
}

// ID names a request of a run.
type ID struct {
	Stage uint32
	Index uint64
}

// Served is a request that the simulator logged. Instants that did not happen are 0.
type Served struct {
	ID
	Arrived, FirstToken, LastToken, Ended Instant
	// Answered reports whether the answer was sent completely.
	Answered             bool
	InputTokens, Outputs uint64
}

// logged is a line of the simulator's log.
type logged struct {
	RequestID    string  `json:"request_id"`
	PromptTokens uint64  `json:"prompt_tokens"`
	OutputTokens uint64  `json:"output_tokens"`
	Arrived      Instant `json:"arrived_ns"`
	FirstToken   Instant `json:"first_token_ns"`
	LastToken    Instant `json:"last_token_ns"`
	Ended        Instant `json:"ended_ns"`
	FinishReason string  `json:"finish_reason"`
	Fault        string  `json:"fault"`
	Cancelled    bool    `json:"cancelled"`
}

// Row is a request row, as far as it is judged. Times are nanoseconds since the stage's start.
type Row struct {
	Stage        uint32  `json:"stage" parquet:"stage"`
	Index        uint64  `json:"index" parquet:"index"`
	Agent        string  `json:"agent" parquet:"agent"`
	Unmeasured   bool    `json:"unmeasured" parquet:"unmeasured"`
	ScheduledNs  int64   `json:"scheduled_ns" parquet:"scheduled_ns"`
	StartNs      int64   `json:"start_ns" parquet:"start_ns"`
	FirstTokenNs *int64  `json:"first_token_ns" parquet:"first_token_ns,optional"`
	LastTokenNs  *int64  `json:"last_token_ns" parquet:"last_token_ns,optional"`
	EndNs        int64   `json:"end_ns" parquet:"end_ns"`
	ITLNs        []int64 `json:"itl_ns" parquet:"itl_ns,list"`
	InputTokens  *uint64 `json:"input_tokens" parquet:"input_tokens,optional"`
	OutputTokens *uint64 `json:"output_tokens" parquet:"output_tokens,optional"`
	TokenFrames  uint64  `json:"token_frames" parquet:"token_frames"`
	ErrorClass   *string `json:"error_class" parquet:"error_class,optional"`
	Cancelled    bool    `json:"cancelled" parquet:"cancelled"`
}

// ID names the request.
func (r *Row) ID() ID { return ID{r.Stage, r.Index} }

// Completed reports whether the request completed.
func (r *Row) Completed() bool { return r.ErrorClass == nil && !r.Cancelled }

// whole reports whether the row has the times and tokens of an answer.
func (r *Row) whole() bool {
	return r.FirstTokenNs != nil && r.LastTokenNs != nil && r.OutputTokens != nil && r.InputTokens != nil
}

// Files of evidence in a directory.
const (
	ResultsFile = "results.json"
	LogFile     = "served.jsonl"
	NotesFile   = "notes.json"
)

// Read reads the evidence of a script's run from a directory: results and rows, the simulator's log, and the notes.
func Read(s script.Script, dir string) (*Evidence, error) {
	e := &Evidence{Script: s}
	err := errors.Join(readJSON(filepath.Join(dir, ResultsFile), &e.Results),
		readJSON(filepath.Join(dir, NotesFile), &e.Notes))
	if err != nil {
		return nil, err
	}
	if e.Rows, err = readRows(filepath.Join(dir, "requests."+s.Records)); err != nil {
		return nil, err
	}
	log, err := os.ReadFile(filepath.Join(dir, LogFile))
	if err != nil {
		return nil, err
	}
	e.Served, err = servedOf(e.Notes.RunID, bytes.NewReader(log))
	return e, err
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Keep writes the evidence into a gzipped JSON file, for Kept.
func (e *Evidence) Keep(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	zipped := gzip.NewWriter(file)
	return errors.Join(json.NewEncoder(zipped).Encode(e), zipped.Close(), file.Close())
}

// Kept reads what Keep wrote.
func Kept(s script.Script, path string) (*Evidence, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	zipped, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	e := &Evidence{Script: s}
	return e, json.NewDecoder(zipped).Decode(e)
}

// servedOf returns a run's requests from the simulator's log. Other requests are those by which agents find out about
// the target.
func servedOf(run string, log io.Reader) (out []Served, err error) {
	err = eachLine(log, func(l logged) {
		if id, ok := idOf(run, l.RequestID); ok {
			out = append(out, Served{
				ID: id, Arrived: l.Arrived, FirstToken: l.FirstToken, LastToken: l.LastToken, Ended: l.Ended,
				Answered:    l.FinishReason != "" && !l.Cancelled && l.Fault == "",
				InputTokens: l.PromptTokens, Outputs: l.OutputTokens,
			})
		}
	})
	return out, err
}

// idOf parses the ID of a request as docs/results.md describes it: a UUID with the run's number, that of the stage, and
// that of the request in its last 14 digits.
func idOf(run, text string) (ID, bool) {
	parts := strings.Split(text, "-")
	if len(parts) != 5 || len(parts[3]) != 4 || parts[0] != fmt.Sprintf("%x", sha256.Sum256([]byte(run)))[:8] {
		return ID{}, false
	}
	s, err1 := strconv.ParseUint(parts[1], 16, 32)
	i, err2 := strconv.ParseUint(parts[3][2:]+parts[4], 16, 64)
	return ID{uint32(s), i}, err1 == nil && err2 == nil
}

// readRows reads the request rows.
func readRows(path string) (rows []Row, err error) {
	if filepath.Ext(path) == ".parquet" {
		return parquet.ReadFile[Row](path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	err = eachLine(bytes.NewReader(data), func(r Row) { rows = append(rows, r) })
	return rows, err
}

// eachLine decodes lines of JSON.
func eachLine[T any](from io.Reader, take func(T)) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			return fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		take(v)
	}
	return lines.Err()
}
