// Package sink hands merged results on while a run goes on, to be watched live: today to InfluxDB.
//
// A sink is a copy for watching, never a source: the ledger has every number, and a sink that is slow, broken or gone
// changes no result. So nothing here may block or fail a run, and no number is worked out here. The coordinator calls
// it once for each merged window, each stage result and each event.
package sink

import "context"

// Sink takes in merged results while a run goes on.
//
// Window, Stage, Event, Agent and Server may be called concurrently. They take what they need before they return, wait
// for no network and have no error: what goes wrong is retried inside and said by Close. Points of one series are
// handed on in the order of the calls. A point given again, for example after late snapshots or by a restarted
// coordinator, takes the place of the first, field by field: what only the first one knew stays.
type Sink interface {
	// Window takes one window of a stage.
	Window(WindowPoint)
	// Stage takes the result of a stage.
	Stage(StagePoint)
	// Event takes something that happened to the run.
	Event(EventPoint)
	// Agent takes how an agent does.
	Agent(AgentPoint)
	// Server takes what a server told of itself.
	Server(ServerPoint)
	// Close hands on what is left until ctx ends. Its error says how many points were not handed on and where they are
	// kept. It is called once, after the last of the other calls.
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
