package storage

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
)

// Reserve is disk space that a run holds back for its end. A full disk ends the run, and the end must be written too.
// Otherwise a coordinator that is restarted when there is space again would continue a run that its client has seen
// end.
type Reserve string // path of the file that holds the space

// reserveBytes is ten times what the pages of a run's last records take.
const reserveBytes = 1 << 20

// Hold takes the space, unless it is held already. A run continues without it, since only a full disk would need it.
func (r Reserve) Hold(log *slog.Logger) {
	if info, err := os.Stat(string(r)); err == nil && info.Size() == reserveBytes {
		return
	}
	if err := r.fill(); err != nil {
		log.Warn("no disk space is reserved for the end of the run", "error", err)
	}
}

// fill writes random bytes, because zeros would take no space on a file system that compresses. A partial file of a
// coordinator that died is overwritten.
func (r Reserve) fill() error {
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

// Release frees the space and reports whether there was any.
func (r Reserve) Release() bool { return os.Remove(string(r)) == nil }
