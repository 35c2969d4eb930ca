package coordinator

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
)

// reserve is room on the disk that a run holds for its end. A disk that is full ends the run, and the end has to be
// written too: else a coordinator that is started when there is room again would go on with a run that its client has
// seen end.
type reserve string // path of the file that holds the room

// reserveBytes is enough for the pages that a run's last words take, ten times over.
const reserveBytes = 1 << 20

// hold takes the room, unless it is held. A run goes on without it: only a full disk would need it.
func (r reserve) hold(log *slog.Logger) {
	if info, err := os.Stat(string(r)); err == nil && info.Size() == reserveBytes {
		return
	}
	if err := r.take(); err != nil {
		log.Warn("no room is held for the end of a run, should the disk become full", "error", err)
	}
}

// take writes the file, so that its room is there and not only promised: zeros would take none on a disk that
// compresses. What a coordinator left that died while it wrote is written anew.
func (r reserve) take() error {
	f, err := os.OpenFile(string(r), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	room := make([]byte, reserveBytes)
	rand.Read(room) // never fails, by its contract
	_, err = f.Write(room)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("reserve %s: %w", r, err), os.Remove(string(r)))
	}
	return nil
}

// giveUp frees the room and reports whether there was any.
func (r reserve) giveUp() bool { return os.Remove(string(r)) == nil }
