package coordinator

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/sink/delivery"
	"github.com/spate-load/spate/coordinator/audit"
	"github.com/spate-load/spate/coordinator/backup"
	"github.com/spate-load/spate/coordinator/fleet"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Backup sends a copy of all runs, the datasets of runs that have not ended, cordons, and the audit log. Each ledger is
// consistent in itself, also one that is being written.
func (s runService) Backup(_ *spatev1.BackupRequest, stream spatev1.RunService_BackupServer) error {
	caller := audit.CallerOf(stream.Context())
	if err := s.c.permit(caller, s.c.cfg.Access.Policy().MayOperate(caller)); err != nil {
		return err
	}
	if s.c.cfg.Local {
		return status.Error(codes.FailedPrecondition, "a local run has nothing but its run directory: copy that")
	}
	s.c.record(audit.Entry{Action: audit.Backup, Caller: caller})
	s.c.log.Info("backup begins", "who", caller.String(), "address", caller.Address)
	w := backup.NewWriter(pieces(func(piece []byte) error {
		return stream.Send(&spatev1.BackupResponse{Data: piece})
	}), time.Now(), s.c.cfg.Version)
	if err := s.c.backUp(w); err != nil {
		return status.Errorf(codes.Internal, "the backup failed: %v", err)
	}
	return nil
}

// pieces is a writer that passes on what is written. gRPC has encoded a message when Send returns.
type pieces func(piece []byte) error

func (p pieces) Write(b []byte) (int, error) {
	if err := p(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// backUp writes all files of a backup. Ledgers come first: what is done meanwhile is at most in the audit log.
func (c *Coordinator) backUp(w *backup.Writer) error {
	ids, err := c.storage.IDs()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := c.backUpRun(w, id); err != nil {
			return err
		}
	}
	for _, sha256 := range slices.Sorted(maps.Keys(c.datasetsInUse())) {
		f, err := c.datasets.Store.Open(sha256)
		if err := add(w, "datasets", f, err); err != nil {
			return err
		}
	}
	f, err := os.Open(filepath.Join(c.cfg.DataDir, fleet.CordonsFile))
	if err := add(w, "", f, err); err != nil {
		return err
	}
	logs, err := c.audit.Files()
	for _, f := range logs {
		err = errors.Join(err, add(w, "", f, nil))
	}
	return errors.Join(err, w.Close())
}

// backUpRun adds the ledger of a run, and the notes about databases that may lack its points.
func (c *Coordinator) backUpRun(w *backup.Writer, id string) error {
	if err := c.backUpLedger(w, id); err != nil {
		return err
	}
	for _, path := range delivery.Marks(c.storage.Dir(id)) {
		f, err := os.Open(path)
		if err := add(w, id, f, err); err != nil {
			return err
		}
	}
	return nil
}

// backUpLedger adds the ledger of a run. One that is being written is copied first, because the copy keeps the file
// from growing, and the receiver may be slow.
func (c *Coordinator) backUpLedger(w *backup.Writer, id string) error {
	if r := c.known(id); r != nil {
		f, err := os.CreateTemp(c.cfg.DataDir, ".backup-*")
		if err != nil {
			return err
		}
		defer func() { _ = errors.Join(f.Close(), os.Remove(f.Name())) }() // nothing else knows of the copy
		switch err := r.ledger.Copy(f); {
		case errors.Is(err, ledger.ErrClosed): // the run has ended, and its file does not change
		case err != nil:
			return err
		default:
			_, err := f.Seek(0, io.SeekStart)
			return errors.Join(err, w.Add(path.Join(id, ledger.File), f))
		}
	}
	f, err := os.Open(c.storage.Ledger(id))
	return add(w, id, f, err)
}

// add adds a file to a folder of the backup, and closes it. A file that is gone by now is left out.
func add(w *backup.Writer, folder string, f *os.File, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(w.Add(path.Join(folder, filepath.Base(f.Name())), f), f.Close())
}
