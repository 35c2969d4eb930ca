package audit

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
)

// tool is a program whose JSON is known. The first whose key is there is taken.
type tool struct {
	name, key string
	// rows is the array that has a row for each measurement. Empty: the document is one.
	rows string
	// paths are the numbers that are read, with the names of fields from the row on.
	paths *regexp.Regexp
	// other replaces words of paths, where the tool calls another quantity so.
	other *strings.Replacer
	// seconds: times are in seconds if nothing else is said.
	seconds bool
}

var tools = []tool{
	{name: "Spate", key: "stages", rows: "stages", paths: regexp.MustCompile(`^(ttft|tpot|itl|e2e)_ms (mean|p\d\d|min|max)$|` +
		`^(request|output_token|total_token)_throughput$|^requests (completed|failed)$|^(in|out)put_tokens$|` +
		`^[io]sl_tokens seen (mean|min|max)$|^load concurrency$|^duration_s$`)},
	{name: "GuideLLM", key: "benchmarks", rows: "benchmarks", seconds: true,
		paths: regexp.MustCompile(`^metrics (request_latency|time_to_first_token_ms|inter_token_latency_ms|\w+_token_count) ` +
			`successful (mean|median|min|max|percentiles p\d\d|total_sum)$|^metrics \w+(_per_second|_concurrency) successful mean$|` +
			`^metrics request_totals (successful|errored)$|^duration$|^config strategy (streams|rate)$`)},
	{name: "AIPerf", key: "request_latency", paths: regexp.MustCompile(`^(request_(latency|throughput|count)|` +
		`time_to_first_token|inter_(token|chunk)_latency|(in|out)put_sequence_length|benchmark_duration|total_[io]sl|` +
		`(in|out)put_token_throughput|total_token_throughput|error_request_count) (avg|min|max|p\d\d)$|` +
		`^input_config loadgen (concurrency|request_rate)$`),
		other: strings.NewReplacer("inter_token_latency", "tpot", "inter_chunk_latency", "itl")},
	{name: "vLLM", key: "tokenizer_id", paths: regexp.MustCompile(`^[^ ].*$`)},
	{name: "inference-perf", key: "successes", seconds: true,
		paths: regexp.MustCompile(`^successes (count$|throughput \w+$|latency (request_latency|time_to_first_token|` +
			`time_per_output_token|inter_token_latency) (mean|median|min|max|p\d\d)$|(prompt|output)_len (mean|min|max)$)|^failures count$`)},
	{name: "a benchmark", paths: regexp.MustCompile(`^[^ ].*$`)}, // SGLang, EvalScope: an object of numbers
}

// errNothing is the error about a file without a known row.
var errNothing = errors.New("no measurement in it is known: want results in JSON of vLLM, SGLang, GuideLLM, AIPerf, " +
	"inference-perf, EvalScope or Spate, the text block that vLLM and SGLang print, or a table in Markdown or CSV " +
	"with headers like \"Mean TTFT (ms)\"")

// parse returns the rows of a file.
func parse(data []byte) (what string, rows []row, err error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	text := bytes.TrimSpace(data)
	switch {
	case bytes.HasPrefix(text, []byte("{")):
		what, rows, err = parseJSON(text)
	case bytes.IndexByte(text, '|') < 0 && !blockStart.Match(text):
		what = "a table in CSV"
		rows, err = parseCSV(text)
	default:
		what, rows = "tables and text", append(parseBlocks(string(data)), parseMarkdown(string(data))...)
	}
	rows = slices.DeleteFunc(rows, func(r row) bool { return len(r.numbers) < 2 })
	if err == nil && len(rows) == 0 {
		err = errNothing
	}
	return what, rows, err
}

// resultNames are the names in results.json of what quantities, or what is before their statistics, are called here.
var resultNames = map[string]string{requestRate: "request_throughput", outputRate: "output_token_throughput",
	concurrency: "load.concurrency", rate: "load.rate", isl: "isl_tokens", osl: "osl_tokens", ttft: "ttft_ms", tpot: "tpot_ms",
	itl: "itl_ms", e2e: "e2e_ms"}

// Measurements returns the numbers of a file's tests by their names in results.json, and the tool that wrote it. The
// error about JSON in which nothing is known says what it has.
func Measurements(data []byte) (tool string, all []map[string]*float64, err error) {
	what, rows, err := parse(data)
	if err != nil {
		var document map[string]any
		if json.Unmarshal(data, &document) == nil {
			err = fmt.Errorf("%w; it has %s", err, words.Shorten(slices.Sorted(maps.Keys(document)), 12))
		}
		return "", nil, err
	}
	tool = strings.TrimPrefix(what, "results of ")
	for i := range rows {
		m := map[string]*float64{}
		for length, total := range map[string]string{isl: input, osl: output} {
			tokens, n := rows[i].numbers[total].middle(), rows[i].numbers[requests].middle()
			if tokens > 0 && n > 0 {
				m[resultNames[length]+mean] = new(tokens / n)
			}
		}
		for quantity, n := range rows[i].numbers {
			name, statistic, _ := strings.Cut(quantity, ".")
			if tool == "GuideLLM" && name == itl {
				name = tpot // so it calls the time per token
			}
			m[strings.TrimSuffix(resultNames[name]+"."+statistic, ".")] = new(n.middle())
		}
		all = append(all, m)
	}
	return tool, all, nil
}

// parseJSON reads one document, or several one after the other.
func parseJSON(text []byte) (what string, rows []row, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		var document map[string]any
		if err := d.Decode(&document); errors.Is(err, io.EOF) {
			return what, rows, nil
		} else if err != nil {
			return "", nil, fmt.Errorf("JSON: %w", err)
		}
		at := slices.IndexFunc(tools, func(t tool) bool { return t.key == "" || document[t.key] != nil })
		t := tools[at]
		what = "results of " + t.name
		list, _ := document[t.rows].([]any)
		if t.rows == "" {
			list = []any{document}
		}
		for _, of := range list {
			r := row{name: nameOf(of), numbers: map[string]number{}}
			t.flatten(&r, "", "", of)
			if t.name == "AIPerf" {
				r.lastsLonger()
			} else if partly(of) {
				maps.DeleteFunc(r.numbers, func(quantity string, _ number) bool { return !strings.Contains(quantity, ".") })
			}
			rows = append(rows, r)
		}
	}
}

// partly reports whether GuideLLM left out a warm-up or the end: its rates, counts and duration are then each of
// another time.
func partly(of any) bool {
	fields, _ := of.(map[string]any)
	config, _ := fields["config"].(map[string]any)
	for _, name := range []string{"warmup", "cooldown"} {
		if phase, _ := config[name].(map[string]any); phase["percent"] != nil || phase["value"] != nil {
			return true
		}
	}
	return false
}

// nameOf returns what a row of JSON says of itself.
func nameOf(of any) string {
	var parts []string
	fields, _ := of.(map[string]any)
	for _, name := range []string{"target", "workload", "load", "backend", "model_id"} {
		value := fields[name]
		if load, ok := value.(map[string]any); ok {
			value = load["words"]
		}
		if text, ok := value.(string); ok {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}

// flatten puts the numbers below a value into a row. unit is that of the object around it.
func (t *tool) flatten(r *row, path, unit string, value any) {
	switch v := value.(type) {
	case map[string]any:
		if u, ok := v["unit"].(string); ok {
			unit = " " + u
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			t.flatten(r, strings.TrimSpace(path+" "+name), unit, v[name])
		}
	case json.Number:
		if !t.paths.MatchString(path) {
			return
		}
		if t.other != nil {
			path = t.other.Replace(path)
		}
		path = strings.Replace(path, "count successful total_sum", "count total", 1)
		if !strings.Contains(path, "request_totals") {
			path = strings.Replace(path, " successful", "", 1)
		}
		r.put(strings.TrimPrefix(path, "metrics ")+unit, v.String(), t.seconds)
	}
}

var (
	blockStart = regexp.MustCompile(`={3,}[ \w]*Result[ \w]*={3,}`)
	blockEnd   = regexp.MustCompile(`={30,}`)
	blockLine  = regexp.MustCompile(`([A-Z][\w ]*(?: ?\([^()]*\))?):[ \t]+([0-9][0-9.,]*(?:e[+-]?\d+)?)`)
	heading    = regexp.MustCompile("(?m)(?:^|\\s)#{1,6} ([^#`|\n]{1,60})")
)

// parseBlocks reads what vLLM's and SGLang's benchmarks print, wherever it is in a text.
func parseBlocks(text string) (rows []row) {
	for _, at := range blockStart.FindAllStringIndex(text, -1) {
		block := text[at[1]:]
		if end := blockEnd.FindStringIndex(block); end != nil {
			block = block[:end[0]]
		}
		r := row{line: 1 + strings.Count(text[:at[0]], "\n"), numbers: map[string]number{}}
		if all := heading.FindAllStringSubmatch(text[:at[0]], -1); len(all) > 0 {
			r.name = strings.Trim(all[len(all)-1][1], " -")
		}
		for _, m := range blockLine.FindAllStringSubmatch(block, -1) {
			r.put(m[1], m[2], false)
		}
		rows = append(rows, r)
	}
	return rows
}

// parseMarkdown reads tables whose headers are known.
func parseMarkdown(text string) (rows []row) {
	var headers []string
	title, line, start := "", 0, 0
	for of := range strings.Lines(text) {
		line++
		of = strings.TrimSpace(of)
		if found := heading.FindStringSubmatch(of); found != nil {
			title = found[1]
		}
		cells := lists.Each(strings.Split(strings.Trim(of, "|"), "|"), strings.TrimSpace)
		switch {
		case !strings.HasPrefix(of, "|"):
			headers = nil
		case headers == nil:
			headers, start = cells, line
		case len(cells) == len(headers) && strings.Trim(of, "|-: ") != "":
			rows = append(rows, tableRow(title, line, headers, cells))
			rows[len(rows)-1].table = start
		}
	}
	return rows
}

// tableRow reads a row of a table. Columns that are not known are its name.
func tableRow(title string, line int, headers, cells []string) row {
	r := row{name: title, line: line, numbers: map[string]number{}}
	for i, header := range headers {
		if strings.EqualFold(header, "concurrency") { // in tables it is what was asked for
			header = "max concurrency"
		}
		if quantity, _ := meaning(header, false); quantity == "" || quantity == concurrency {
			r.name = strings.Trim(r.name+", "+headers[i]+" "+cells[i], ", ")
		}
		r.put(header, strings.Trim(cells[i], "*`~ "), false)
	}
	return r
}

// parseCSV reads a table with a header, or with a line for each metric, as AIPerf writes it.
func parseCSV(text []byte) ([]row, error) {
	c := csv.NewReader(bytes.NewReader(text))
	c.FieldsPerRecord = -1
	records, err := c.ReadAll()
	if err != nil || len(records) < 2 {
		return nil, errNothing
	}
	headers := records[0]
	metrics := row{numbers: map[string]number{}}
	var rows []row
	for i, cells := range records[1:] {
		switch {
		case headers[0] != "Metric" && len(cells) == len(headers):
			rows = append(rows, tableRow("", i+2, headers, cells))
		case cells[0] == "Metric":
			headers = cells
		case headers[0] == "Metric":
			for j := 1; j < min(len(cells), len(headers)); j++ {
				metrics.put(strings.NewReplacer("Inter Token", "TPOT", "Inter Chunk", "ITL").Replace(cells[0])+" "+
					strings.Replace(headers[j], "Value", "", 1), cells[j], false)
			}
		}
	}
	metrics.lastsLonger()
	return append(rows, metrics), nil
}
