package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// startLocust runs locustfile.py. All users start at once.
func startLocust(j Job) (Command, error) {
	return Command{
		Args: []string{
			j.program("locust", "locust"), "--locustfile", filepath.Join(j.Home, "locustfile.py"), "--headless",
			"--only-summary", "--host", j.URL,
			"--users", fmt.Sprint(j.Streams), "--spawn-rate", fmt.Sprint(j.Streams), "--csv",
			filepath.Join(j.Dir, "locust"),
		},
		Env: []string{fmt.Sprintf("PEERS_REQUESTS=%d", j.Requests), fmt.Sprintf("PEERS_OUTPUT_TOKENS=%d", j.OSL),
			"PEERS_PROMPT=" + j.prompt()},
	}, nil
}

// readLocust reads the statistics from Locust's CSV file. The definitions are those of the locustfile, the same as
// ours. For percentiles Locust rounds values to a millisecond, and from 100 ms on to two digits.
func readLocust(dir string) (report Report, err error) {
	file, err := os.Open(filepath.Join(dir, "locust_stats.csv"))
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) == 0 {
		return Report{}, fmt.Errorf("locust: no statistics: %w", err)
	}
	columns := map[string]int{}
	for i, name := range rows[0] {
		columns[name] = i
	}
	var r Report
	for _, row := range rows[1:] {
		number := func(column string) *float64 {
			v, err := strconv.ParseFloat(row[columns[column]], 64)
			if err != nil {
				return nil // N/A
			}
			return &v
		}
		s := Summary{Mean: number("Average Response Time"), P50: number("50%"), P99: number("99%")}
		switch row[columns["Type"]] {
		case "POST":
			r.Failed = count(number("Failure Count"))
			r.Requests = count(number("Request Count")) - r.Failed
		case "TTFT":
			r.TTFT = s
		case "ITL":
			r.ITL = s
		case "TPOT":
			r.TPOT = s
		}
	}
	return r, nil
}
