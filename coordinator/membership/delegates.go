package membership

import (
	"log"
	"log/slog"
	"strings"
)

// metaDelegate hands memberlist this node's meta. Nothing else is spread by gossip.
type metaDelegate []byte

// NodeMeta returns the meta. The limit is far away: see Meta.
func (d metaDelegate) NodeMeta(int) []byte { return d }

// NotifyMsg ignores messages: none are sent.
func (metaDelegate) NotifyMsg([]byte) {}

// GetBroadcasts has none.
func (metaDelegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState is empty.
func (metaDelegate) LocalState(bool) []byte { return nil }

// MergeRemoteState ignores the other's state.
func (metaDelegate) MergeRemoteState([]byte, bool) {}

// debugLogger makes memberlist's chatter debug records, and shows each line to read first.
func debugLogger(l *slog.Logger, read func(line string)) *log.Logger {
	return log.New(debugWriter{l, read}, "", 0)
}

type debugWriter struct {
	log  *slog.Logger
	read func(line string)
}

// Write takes one line.
func (w debugWriter) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	w.read(text)
	w.log.Debug("gossip", "line", text)
	return len(line), nil
}
