package api

import (
	"slices"
	"strconv"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/simulator/config"
)

// nvext is the part of Dynamo's response extension that a request asks for, in the form of Dynamo 1.6: worker_id in
// each frame, timing in the frame with the finish reason.
type nvext struct{ timing, worker bool }

// nvextOf reads nvext.extra_fields of a request.
func nvextOf(d *config.Dialect, fields []string) nvext {
	if !d.NVExt {
		return nvext{}
	}
	return nvext{timing: slices.Contains(fields, "timing"), worker: slices.Contains(fields, "worker_id")}
}

// appendNVExt appends the extension of a frame, or nothing if it has none. Only the last frame has the times.
func (p *FrameWriter) appendNVExt(b []byte, asked nvext, last bool) []byte {
	timing := asked.timing && last
	if !timing && !asked.worker {
		return b
	}
	b = append(b, `,"nvext":{`...)
	if asked.worker {
		worker := int64(p.Worker + 1) // Dynamo has no worker 0
		b = append(b, `"worker_id":{"prefill_worker_id":`...)
		b = strconv.AppendInt(b, worker, 10)
		b = append(b, `,"decode_worker_id":`...)
		b = strconv.AppendInt(b, worker, 10)
		b = append(b, '}')
	}
	if timing && asked.worker {
		b = append(b, ',')
	}
	if timing {
		b = p.appendTiming(b)
	}
	return append(b, '}')
}

// appendTiming appends the times of a request, by the model's clock. All tokens must have been produced.
func (p *FrameWriter) appendTiming(b []byte) []byte {
	s := p.Seq
	received := time.Now().Add(-clock.Now().Sub(s.Arrived))
	b = append(b, `"timing":{"request_received_ms":`...)
	b = strconv.AppendInt(b, received.UnixMilli(), 10)
	b = milliseconds(b, "prefill_wait_time_ms", s.Began.Sub(s.Arrived))
	b = milliseconds(b, "prefill_time_ms", s.First.Sub(s.Began))
	b = milliseconds(b, "ttft_ms", s.First.Sub(s.Arrived))
	b = milliseconds(b, "total_time_ms", s.Latest.Sub(s.Arrived))
	if p.caching {
		b = append(b, `,"kv_hit_rate":`...)
		b = strconv.AppendFloat(b, float64(p.Cached)/float64(max(1, p.prompt)), 'f', -1, 64)
	}
	return append(b, '}')
}

// milliseconds appends a field, with a comma in front.
func milliseconds(b []byte, name string, d time.Duration) []byte {
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":`...)
	return strconv.AppendFloat(b, float64(d)/float64(time.Millisecond), 'f', -1, 64)
}
