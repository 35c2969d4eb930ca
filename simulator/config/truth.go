package config

import "io"

// Truth is what is recorded about the frames sent.
type Truth struct {
	// Stamp adds "sent_ns" to each object sent: clock.Now just before the write.
	Stamp bool `flag:"truth" help:"stamp each frame with the instant it was sent at"`
	// Keep holds a Record of each request in memory, for Records. The memory grows without bound: for tests.
	Keep bool
	// Tokens adds to each Record the send time of every token frame.
	Tokens bool `flag:"truth-tokens" help:"with --truth-file: the send time of each token frame, too"`
	// Log receives each Record as a line of JSON when its request has ended, with one Write each, never concurrently.
	// The caller closes it, after the simulator. Nil: no log.
	Log io.Writer
}
