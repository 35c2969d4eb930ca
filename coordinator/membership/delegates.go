package membership

import (
	"log"
	"log/slog"
	"strings"
)

// metaDelegate gives memberlist this node's meta. Gossip spreads nothing else.
type metaDelegate []byte

// NodeMeta returns the meta, which is always far below the limit: see Meta.
func (d metaDelegate) NodeMeta(int) []byte { return d }

// NotifyMsg ignores messages, because none are sent.
func (metaDelegate) NotifyMsg([]byte) {}

// GetBroadcasts returns nil: there are no broadcasts.
func (metaDelegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState returns nil: there is no state to exchange.
func (metaDelegate) LocalState(bool) []byte { return nil }

// MergeRemoteState ignores the other member's state.
func (metaDelegate) MergeRemoteState([]byte, bool) {}

// debugLogger turns memberlist's log lines into debug records. Each line is passed to read first.
func debugLogger(l *slog.Logger, read func(line string)) *log.Logger {
	return log.New(debugWriter{l, read}, "", 0)
}

type debugWriter struct {
	log  *slog.Logger
	read func(line string)
}

// Write logs one line.
func (w debugWriter) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	w.read(text)
	w.log.Debug("gossip", "line", text)
	return len(line), nil
}
