package api

import (
	"slices"

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

// extension is the extension of a frame, or nothing if it has none. Only the last frame has the times.
const extension = `$?extends($?nvext(,"nvext":{
	$?worker("worker_id":{"prefill_worker_id":$worker,"decode_worker_id":$worker}$)$?both(,$)
	$?timing("timing":{"request_received_ms":$received,"prefill_wait_time_ms":$waiting,"prefill_time_ms":$prefilling,
	"ttft_ms":$first,"total_time_ms":$all$?caching(,"kv_hit_rate":$hits$)}$)}$)$)`
