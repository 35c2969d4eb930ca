package recorder

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// rowBytes is how many bytes of request rows a snapshot carries, well below the coordinator's limit of a message. A
// window with more becomes several snapshots: the first has the measurements, all have rows.
const rowBytes = 2 << 20

// snapshots merges the pages of a window. It returns at least one snapshot.
func (r *Recorder) snapshots(window uint32, pages []*page) []*spatev1.Snapshot {
	main := &spatev1.Snapshot{Window: window, Shares: sharesOf(pages, window)}
	for number := range r.config.cells() {
		endpoint, part := number%r.config.Endpoints, number/r.config.Endpoints
		if s := r.series(endpoint, part, pages, func(p *page) *cell { return &p.cells[number] }); s != nil {
			main.Series = append(main.Series, s)
		}
	}
	if r.config.Sessions {
		main.Turns = r.turns(pages)
	}
	all := []*spatev1.Snapshot{main}
	for i, rows := range r.split(r.rowsOf(pages)) {
		if i > 0 {
			all = append(all, &spatev1.Snapshot{Window: window})
		}
		all[i].Records = rows
	}
	return all
}

// turns returns the series of each class of turns that was measured.
func (r *Recorder) turns(pages []*page) (all []*spatev1.Series) {
	for class := range measure.TurnClasses {
		if s := r.series(class, 0, pages, func(p *page) *cell {
			if class >= len(p.turns) {
				return &cell{}
			}
			return &p.turns[class]
		}); s != nil {
			all = append(all, s)
		}
	}
	return all
}

// series merges the cells of an endpoint and a part, or of a class of turns. It returns nil if they are empty.
func (r *Recorder) series(number, part int, pages []*page, cellOf func(*page) *cell) *spatev1.Series {
	var merged cell
	for _, p := range pages {
		if p == nil {
			continue
		}
		c := cellOf(p)
		merged.counts.Add(&c.counts)
		merged.models = measure.AddModels(merged.models, c.models)
		for _, e := range c.errors {
			merged.fail(e.class, e.status, e.count, e.example)
		}
	}
	if merged.counts == (measure.Counts{}) {
		return nil // everything recorded is also counted
	}
	return &spatev1.Series{
		Endpoint:      uint32(number),
		Part:          uint32(part),
		Counters:      merged.counts.Proto(),
		Distributions: r.distributions(pages, cellOf),
		Errors:        merged.errorProtos(),
		Models:        merged.models,
	}
}

// distributions makes histograms of the values of cells, by metric.
func (r *Recorder) distributions(pages []*page, cellOf func(*page) *cell) []*spatev1.Distribution {
	var all []*spatev1.Distribution
	for m := range spatev1.Metric(measure.Count) {
		h := r.scratch(m)
		for _, p := range pages {
			if p == nil {
				continue
			}
			for some := range slices.Chunk(cellOf(p).values[m], breakAfter) {
				for _, v := range some {
					h.Record(v)
				}
				r.addWork(len(some))
			}
		}
		if h.Count() > 0 {
			all = append(all, h.Proto(m))
		}
	}
	return all
}

// scratch returns an empty histogram for a metric. It is valid until the next call.
func (r *Recorder) scratch(m spatev1.Metric) *histogram.Histogram {
	h := r.times
	if histogram.LayoutOf(m) == histogram.Counts {
		h = r.counts
	}
	h.Reset()
	return h
}

func (c *cell) errorProtos() []*spatev1.ErrorCount {
	return lists.Each(c.errors, func(e errorCount) *spatev1.ErrorCount {
		return &spatev1.ErrorCount{Class: e.class, HttpStatus: uint32(e.status), Count: e.count, Example: e.example}
	})
}

// rowsOf returns the request rows of a window, in the order of the requests.
func (r *Recorder) rowsOf(pages []*page) []*spatev1.RequestRecord {
	var rows []*spatev1.RequestRecord
	for _, p := range pages {
		if p != nil {
			rows = append(rows, p.rows...)
		}
	}
	slices.SortFunc(rows, func(a, b *spatev1.RequestRecord) int {
		r.addWork(comparing)
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Turn, b.Turn))
	})
	return rows
}

// split cuts rows into pieces of about rowBytes, each of at least one row.
func (r *Recorder) split(rows []*spatev1.RequestRecord) [][]*spatev1.RequestRecord {
	var pieces [][]*spatev1.RequestRecord
	begin, size := 0, 0
	for i, row := range rows {
		n := proto.Size(row)
		r.addWork(sizing)
		if i > begin && size+n > rowBytes {
			pieces = append(pieces, rows[begin:i:i])
			begin, size = i, 0
		}
		size += n
	}
	if begin < len(rows) {
		pieces = append(pieces, rows[begin:])
	}
	return pieces
}

// windowShare is the part of some requests that lies in one window. It is known when they end.
type windowShare struct{ tokens, chunks, requests uint64 }

// million is how many parts the time of a request is divided into.
const million = 1_000_000

// shareOf returns the page's share of a window, which is the page's window or an earlier one.
func (p *page) shareOf(window, of uint32) *windowShare {
	ago := int(window - min(of, window))
	for len(p.shares) <= ago {
		p.shares = append(p.shares, windowShare{})
	}
	return &p.shares[ago]
}

// shareFrames distributes the output tokens over the token frames: of n tokens in f frames, the first i frames have
// n*i/f.
func (p *page) shareFrames(w windows, window uint32, o *stream.Observation) {
	var to *windowShare
	end := clock.Instant(-1) // of the window of `to`
	frames, tokens := uint64(0), uint64(0)
	for _, f := range o.Frames {
		if at := f.At(); at >= end {
			number := w.of(at)
			to, end = p.shareOf(window, number), w.start.Add(time.Duration(number+1)*Length)
		}
		if f.Chunk() && o.Streamed() {
			to.chunks++
		}
		if f.Token() {
			frames++
			all := o.OutputTokens * frames / o.TokenFrames
			to.tokens += all - tokens
			tokens = all
		}
	}
}

// shareTime distributes the request itself over its duration.
func (p *page) shareTime(w windows, window uint32, o *stream.Observation) {
	whole, done := o.End.Sub(o.Start), uint64(0)
	for number := w.of(o.Start); done < million; number++ {
		parts := uint64(million)
		if passed := w.start.Add(time.Duration(number+1) * Length).Sub(o.Start); passed < whole {
			parts = uint64(float64(passed) / float64(whole) * million)
		}
		p.shareOf(window, number).requests += parts - done
		done = parts
	}
}

// sharesOf merges the shares of a window's pages, the earliest window first.
func sharesOf(pages []*page, window uint32) (shares []*spatev1.WindowShare) {
	var merged page
	for _, p := range pages {
		if p == nil {
			continue
		}
		for ago, s := range p.shares {
			into := merged.shareOf(window, window-uint32(ago))
			into.tokens += s.tokens
			into.chunks += s.chunks
			into.requests += s.requests
		}
	}
	for ago := len(merged.shares) - 1; ago >= 0; ago-- {
		if s := merged.shares[ago]; s != (windowShare{}) {
			shares = append(shares, &spatev1.WindowShare{
				Window: window - uint32(ago), OutputTokens: s.tokens, Chunks: s.chunks, MicroRequests: s.requests,
			})
		}
	}
	return shares
}
