// Package sink passes on merged results during a run, so that the run can be watched live.
//
// A sink is a copy for watching, never a source: the ledger has every number, and a sink that is slow, broken or
// unreachable does not affect results. Therefore nothing here may block a run or make it fail, and no number is
// calculated here. The coordinator calls the sink once for each merged window, each stage result and each event.
//
// This package has the points and their rows. Package delivery sends rows to databases; each database has a package.
package sink

import "context"

// Point is something that a sink takes: a WindowPoint, StagePoint, EventPoint, AgentPoint or ServerPoint.
type Point interface {
	// Rows returns the point in the form of a time series database. Rows share no memory with the point.
	Rows() []Row
}

// Sink takes merged results during a run.
type Sink interface {
	// Put takes a point. It may be called concurrently. It copies what it needs before it returns, does not wait for
	// the network, and returns no error: the sink retries failures, and Close reports what is left of them. Points of
	// one series are passed on in the order of the calls. A point that is given again, for example after late snapshots
	// or by a restarted coordinator, is meant to replace the first one field by field: fields that only the first one
	// has stay. Package and documentation of a database say what it does instead.
	Put(p Point)
	// Close passes on what is left, and blocks until that is done or ctx ends. Its error says how many points were not
	// passed on. Call Close once, after all other calls have returned, and after the ledger of an ended run is closed.
	Close(ctx context.Context) error
}

// Discard is the sink of a run without a database.
var Discard Sink = discard{}

type discard struct{}

func (discard) Put(Point)                   {}
func (discard) Close(context.Context) error { return nil }
