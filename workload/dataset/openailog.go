package dataset

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// logReader reads lines of a log: a request and its response as OpenAI's API has them, and when they were sent. The
// line may be the request itself. Request and response may have a body, as in the files of a batch.
type logReader struct{ requests *recordedRequests }

// read returns the call of a line and its row.
func (r *logReader) read(it item) (call, *linkedRow, error) {
	line, err := readObject(it.Text)
	if err != nil {
		return call{}, nil, err
	}
	if captured := objectIn(line["captureData"]); captured != nil {
		line = captureOf(captured, objectIn(line["eventMetadata"]))
	}
	request, response := line, objectIn(line.take("response"))
	for _, name := range []string{"request", "body"} {
		if inner := objectIn(request[name]); inner != nil {
			request = inner
		}
	}
	if body := objectIn(response["body"]); body != nil {
		response = body
	}
	c, err := callOf(line, request, response)
	if err != nil {
		return c, nil, err
	}
	c.trace = cmp.Or(c.trace, fmt.Sprintf("line %d", it.Number)) // a session by itself
	usage := objectIn(line.take("usage"))
	if usage == nil {
		usage = objectIn(response["usage"])
	}
	row, err := r.requests.row(recordedRequest{messages: request.take("messages"), fields: request.fields(),
		input: usage.take("prompt_tokens"), output: usage.take("completion_tokens"),
		limit: request.take("max_completion_tokens", "max_tokens")})
	return c, row, err
}

// captureOf returns a line of Amazon SageMaker's data capture, which has request and response as texts, as other logs
// have it.
func captureOf(captured, metadata object) object {
	line := object{}
	if at := metadata["inferenceTime"]; at != nil {
		line["timestamp"] = at
	}
	for name, place := range map[string]string{"request": "endpointInput", "response": "endpointOutput"} {
		var text string
		if json.Unmarshal(objectIn(captured[place])["data"], &text) == nil && json.Valid([]byte(text)) {
			line[name] = compact([]byte(text))
		}
	}
	return line
}

// callOf returns when a request was sent and answered, and its session.
func callOf(line, request, response object) (c call, err error) {
	session := line.take("session_id", "conversation_id", "trace_id")
	if session == nil {
		session = objectIn(request["metadata"]).take("session_id")
	}
	if c.trace, err = parseName("session_id", session); err != nil {
		return c, err
	}
	start := line.take("timestamp", "time", "start_time", "startTime", "created_at", "created")
	if start == nil {
		start = response["created"]
	}
	if start == nil {
		c.untimed = true
		return c, nil
	}
	if c.start, err = parseInstant("timestamp", start); err != nil {
		return c, err
	}
	if end := line.take("end_time", "endTime", "completed_at"); end != nil {
		c.end, err = parseInstant("end_time", end)
	} else if took := line.take("duration_ms", "latency_ms"); took != nil {
		c.end, err = parseTime("duration_ms", took, 1e6)
		c.end += c.start
	}
	if c.ended = c.end >= c.start; !c.ended {
		c.end = c.start
	}
	return c, err
}

// layouts are the forms of times in logs, beside numbers. Those without a zone are in UTC.
var layouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05"}

// parseInstant reads a time: a text, or a number of seconds, milliseconds, microseconds or nanoseconds since 1970,
// which its size tells.
func parseInstant(name string, value []byte) (int64, error) {
	if bytes.HasPrefix(value, []byte{'"'}) {
		var text string
		_ = json.Unmarshal(value, &text) // it is valid
		for _, layout := range layouts {
			if at, err := time.Parse(layout, text); err == nil && at.Year() > 1678 && at.Year() < 2262 {
				return at.UnixNano(), nil
			}
		}
		return 0, unusable("%s is %.40q, not a time such as 2026-01-31T12:00:00Z", name, text)
	}
	n, err := parseNumber(name, value)
	if err != nil {
		return 0, err
	}
	unit := 1e9
	for size := math.Abs(n); size >= 1e11 && unit > 1; size /= 1e3 {
		unit /= 1e3
	}
	return parseTime(name, value, unit)
}
