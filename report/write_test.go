package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"go.uber.org/goleak"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/report/requests"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWriteIsReproducibleToTheByte(t *testing.T) {
	for _, records := range []string{"", requests.JSONL, requests.Parquet} {
		t.Run("records "+records, func(t *testing.T) {
			dir := runDir(t, records, inOrder)
			want := written(t, dir)
			if diff := cmp.Diff(want, written(t, dir)); diff != "" {
				t.Errorf("writing again differs:\n%s", diff)
			}
			shuffled := runDir(t, records, func(all []*spatev1.Snapshot) {
				rand.New(rand.NewPCG(1, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			})
			if diff := cmp.Diff(want, written(t, shuffled)); diff != "" {
				t.Errorf("another order of snapshots differs:\n%s", diff)
			}
			names := []string{"histograms.hlog", "plan.yaml", "report.html", "report.md", "results.json", "vllm.txt"}
			if records != "" {
				names = append(names, "requests."+records)
			}
			slices.Sort(names)
			if diff := cmp.Diff(names, sortedKeys(want)); diff != "" {
				t.Errorf("files:\n%s", diff)
			}
		})
	}
}

func TestPlanIsAsItWasGiven(t *testing.T) {
	if got := written(t, runDir(t, "", inOrder))["plan.yaml"]; got != planText {
		t.Errorf("plan.yaml is %q", got)
	}
}

func TestResultsAreStrictJSONOfTheResult(t *testing.T) {
	dir := runDir(t, "", inOrder)
	d := json.NewDecoder(strings.NewReader(written(t, dir)["results.json"]))
	d.DisallowUnknownFields()
	var got results.Result
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	l, err := ledger.OpenReadOnly(filepath.Join(dir, ledger.File))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	want, err := results.Of(l)
	if err != nil {
		t.Fatal(err)
	}
	if got.Headline == nil || got.Headline.Kind != "target" {
		t.Errorf("headline %+v", got.Headline)
	}
	want.Headline = got.Headline
	if diff := cmp.Diff(want, &got); diff != "" {
		t.Error(diff)
	}
	if !got.Run.Complete || got.Stages[1].Requests.Completed != 39 {
		t.Errorf("complete %v, missing %v, requests %+v", got.Run.Complete, got.Run.Missing, got.Stages[1].Requests)
	}
}

// Another implementation of the format reads the same numbers.
func TestHistogramsCanBeReadByHdrHistogram(t *testing.T) {
	dir := runDir(t, "", inOrder)
	files := written(t, dir)
	var results results.Result
	if err := json.Unmarshal([]byte(files["results.json"]), &results); err != nil {
		t.Fatal(err)
	}
	reader := hdrhistogram.NewHistogramLogReader(strings.NewReader(files["histograms.hlog"]))
	found := make(map[string]*hdrhistogram.Histogram)
	for {
		h, err := reader.NextIntervalHistogram()
		if err != nil {
			t.Fatal(err)
		}
		if h == nil {
			break
		}
		found[h.Tag()] = h
	}
	for tag, want := range map[string]*histogram.Summary{
		"0/ttft": results.Stages[0].TTFT, "1/itl": results.Stages[1].ITL, "1/e2e": results.Stages[1].E2E,
	} {
		h := found[tag]
		if h == nil {
			t.Fatalf("no %s among %v", tag, sortedKeys(found))
		}
		if uint64(h.TotalCount()) != want.Count {
			t.Errorf("%s: %d values, want %d", tag, h.TotalCount(), want.Count)
		}
		// Our percentiles are capped at the exact largest value, which a log does not contain.
		if p := min(float64(h.ValueAtPercentile(99))/1e6, want.Max); p != want.P99 {
			t.Errorf("%s: p99 %v, want %v", tag, p, want.P99)
		}
	}
	if got := found["1/ttft"].StartTimeMs(); got != 1700000030500 {
		t.Errorf("stage 1 starts at %d", got)
	}
	// A log processor without a tag option reads the lines without a tag.
	if h := found[""]; h == nil || uint64(h.TotalCount()) != results.Stages[1].E2E.Count ||
		h.Max() != found["1/e2e"].Max() {
		t.Errorf("without a tag: %v", h)
	}
	if len(found) != 29 { // 13 metrics and the failure times of 2 stages, and e2e without a tag
		t.Errorf("tags %v", sortedKeys(found))
	}
}

// The metadata of a Parquet file name the run, its stages, the units and what each column means.
func TestParquetTellsWhatItIs(t *testing.T) {
	data := []byte(written(t, runDir(t, requests.Parquet, inOrder))["requests.parquet"])
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	said := func(key string, into any) {
		t.Helper()
		text, found := file.Lookup(key)
		if !found {
			t.Errorf("no %s", key)
		} else if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	var stages []struct {
		Stage        uint32
		Target, Load string
		StartTime    *string `json:"start_time"`
	}
	said("spate.stages", &stages)
	if len(stages) != 2 || stages[1].Stage != 1 || stages[1].Load == "" || stages[1].Target == "" ||
		stages[1].StartTime == nil {
		t.Errorf("stages %+v", stages)
	}
	if run, _ := file.Lookup("spate.run_id"); run != "sweep-1" {
		t.Errorf("run %q", run)
	}
}

// requestRow is a request's row as a reader of both forms declares it.
type requestRow struct {
	Stage           uint32  `json:"stage" parquet:"stage"`
	Index           uint64  `json:"index" parquet:"index"`
	Agent           string  `json:"agent" parquet:"agent,dict"`
	Endpoint        uint32  `json:"endpoint" parquet:"endpoint"`
	Part            *string `json:"part" parquet:"part,optional,dict"`
	Model           *string `json:"model" parquet:"model,optional,dict"`
	Unmeasured      bool    `json:"unmeasured" parquet:"unmeasured"`
	ScheduledNs     int64   `json:"scheduled_ns" parquet:"scheduled_ns"`
	StartNs         int64   `json:"start_ns" parquet:"start_ns"`
	SentNs          *int64  `json:"sent_ns" parquet:"sent_ns,optional"`
	FirstByteNs     *int64  `json:"first_byte_ns" parquet:"first_byte_ns,optional"`
	FirstTokenNs    *int64  `json:"first_token_ns" parquet:"first_token_ns,optional"`
	LastTokenNs     *int64  `json:"last_token_ns" parquet:"last_token_ns,optional"`
	FirstTextNs     *int64  `json:"first_text_ns" parquet:"first_text_ns,optional"`
	FirstAnswerNs   *int64  `json:"first_answer_ns" parquet:"first_answer_ns,optional"`
	FirstChunkNs    *int64  `json:"first_chunk_ns" parquet:"first_chunk_ns,optional"`
	LastChunkNs     *int64  `json:"last_chunk_ns" parquet:"last_chunk_ns,optional"`
	EndNs           int64   `json:"end_ns" parquet:"end_ns"`
	ConnectNs       *int64  `json:"connect_ns" parquet:"connect_ns,optional"`
	ITLNs           []int64 `json:"itl_ns" parquet:"itl_ns,list"`
	ISLAsked        uint32  `json:"isl_asked" parquet:"isl_asked"`
	OSLAsked        uint32  `json:"osl_asked" parquet:"osl_asked"`
	InputTokens     *uint64 `json:"input_tokens" parquet:"input_tokens,optional"`
	OutputTokens    *uint64 `json:"output_tokens" parquet:"output_tokens,optional"`
	Usage           bool    `json:"usage" parquet:"usage"`
	TokenFrames     uint64  `json:"token_frames" parquet:"token_frames"`
	Chunks          uint64  `json:"chunks" parquet:"chunks"`
	TextBytes       uint64  `json:"text_bytes" parquet:"text_bytes"`
	ReasoningTokens *uint64 `json:"reasoning_tokens" parquet:"reasoning_tokens,optional"`
	ErrorClass      *string `json:"error_class" parquet:"error_class,optional,dict"`
	HTTPStatus      *uint32 `json:"http_status" parquet:"http_status,optional"`
	Error           *string `json:"error" parquet:"error,optional"`
	Cancelled       bool    `json:"cancelled" parquet:"cancelled"`
	BodyHash        string  `json:"body_hash" parquet:"body_hash"`
	FinishReason    *string `json:"finish_reason" parquet:"finish_reason,optional,dict"`
	AnswerModel     *string `json:"answer_model" parquet:"answer_model,optional,dict"`
	TraceID         *string `json:"trace_id" parquet:"trace_id,optional"`
	Turn            uint32  `json:"turn" parquet:"turn"`
	CachedTokens    *uint64 `json:"cached_tokens" parquet:"cached_tokens,optional"`
	SharedTokens    uint32  `json:"shared_tokens" parquet:"shared_tokens"`
	DNSNs           *int64  `json:"dns_ns" parquet:"dns_ns,optional"`
	TCPNs           *int64  `json:"tcp_ns" parquet:"tcp_ns,optional"`
	TLSNs           *int64  `json:"tls_ns" parquet:"tls_ns,optional"`
	ServerQueueNs   *int64  `json:"server_queue_ns" parquet:"server_queue_ns,optional"`
	HeldNs          *int64  `json:"held_ns" parquet:"held_ns,optional"`
	ToolCalls       *uint64 `json:"tool_calls" parquet:"tool_calls,optional"`
	ValidToolCalls  *uint64 `json:"valid_tool_calls" parquet:"valid_tool_calls,optional"`
	Garbled         bool    `json:"garbled" parquet:"garbled"`
	ValidAnswer     *bool   `json:"valid_answer" parquet:"valid_answer,optional"`
	Texts           *uint32 `json:"texts" parquet:"texts,optional"`
}

func TestRequestRows(t *testing.T) {
	fromJSON := jsonRows(t, written(t, runDir(t, requests.JSONL, inOrder))["requests.jsonl"])
	data := written(t, runDir(t, requests.Parquet, inOrder))["requests.parquet"]
	fromParquet, err := parquet.Read[requestRow](bytes.NewReader([]byte(data)), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(bytes.NewReader([]byte(data)), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(parquet.SchemaOf(requestRow{}).String(), "requestRow", "Row", 1)
	if diff := cmp.Diff(want, file.Schema().String()); diff != "" {
		t.Errorf("the schema differs:\n%s", diff)
	}
	for i := range fromParquet {
		fromParquet[i].ITLNs = append([]int64{}, fromParquet[i].ITLNs...)
	}
	if diff := cmp.Diff(fromJSON, fromParquet); diff != "" {
		t.Errorf("the two forms differ:\n%s", diff)
	}
	if len(fromJSON) != 80 {
		t.Fatalf("%d rows", len(fromJSON))
	}
	for i, row := range fromJSON {
		if want := uint64(i % 40); row.Index != want || row.Stage != uint32(i/40) {
			t.Errorf("row %d is request %d of stage %d", i, row.Index, row.Stage)
		}
	}
	if row := fromJSON[0]; row.Agent != "a" || *row.OutputTokens != 4 || len(row.ITLNs) != 3 || row.ErrorClass != nil ||
		row.BodyHash != "8000000000000009" {
		t.Errorf("row %+v", row)
	}
	failed := slices.IndexFunc(fromJSON, func(r requestRow) bool { return r.ErrorClass != nil })
	if row := fromJSON[failed]; *row.ErrorClass != "http_429" || *row.HTTPStatus != 429 || row.FirstTokenNs != nil ||
		row.OutputTokens != nil {
		t.Errorf("row %+v", row)
	}
}

// jsonRows decodes rows and refuses unknown fields.
func jsonRows(t *testing.T, data string) (rows []requestRow) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(data))
	for lines.Scan() {
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.DisallowUnknownFields()
		var row requestRow
		if err := d.Decode(&row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

func TestUnknownFormOfRowsIsAnError(t *testing.T) {
	dir := runDir(t, "", inOrder)
	l, err := ledger.Open(filepath.Join(dir, ledger.File))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Put(ledger.Change{Run: runRecord("csv")}), l.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(dir, Options{}); err == nil || !strings.Contains(err.Error(), `"csv"`) {
		t.Errorf("error %v", err)
	}
}

func TestNoLedgerIsAnError(t *testing.T) {
	if _, err := Write(t.TempDir(), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
