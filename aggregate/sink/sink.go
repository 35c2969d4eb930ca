// Package sink passes on merged results during a run, so that the run can be watched live; currently to InfluxDB.
//
// A sink is a copy for watching, never a source: the ledger has every number, and a sink that is slow, broken or
// unreachable does not affect results. Therefore nothing here may block a run or make it fail, and no number is
// calculated here. The coordinator calls the sink once for each merged window, each stage result and each event.
package sink

import "context"

// Sink takes merged results during a run.
//
// Window, Stage, Event, Agent and Server may be called concurrently. They copy what they need before they return, do
// not wait for the network, and return no error: the sink retries failures, and Close reports what is left of them.
// Points of one series are passed on in the order of the calls. A point that is given again, for example after late
// snapshots or by a restarted coordinator, replaces the first one field by field: fields that only the first one has
// stay.
type Sink interface {
	// Window takes one window of a stage.
	Window(WindowPoint)
	// Stage takes the result of a stage.
	Stage(StagePoint)
	// Event takes an event of the run.
	Event(EventPoint)
	// Agent takes the state of an agent.
	Agent(AgentPoint)
	// Server takes a value of a server's metrics.
	Server(ServerPoint)
	// Close passes on what is left, and blocks until that is done or ctx ends. Its error says how many points were not
	// passed on and where they are kept. Call Close once, after all other calls have returned.
	Close(ctx context.Context) error
}

// Discard is the sink of a run that nobody watches.
var Discard Sink = discard{}

type discard struct{}

func (discard) Window(WindowPoint)          {}
func (discard) Stage(StagePoint)            {}
func (discard) Event(EventPoint)            {}
func (discard) Agent(AgentPoint)            {}
func (discard) Server(ServerPoint)          {}
func (discard) Close(context.Context) error { return nil }
