package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/internal/reason"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// This file finds the rows files of datasets in a directory, and fetches those that are missing from a coordinator.

// Fetcher finds the rows of workloads, in the program's own directory or else at the coordinator. It outlives
// sessions: an interrupted transfer continues over the next session. It is safe for concurrent use.
type Fetcher struct {
	Dir    string
	Limits files.Limits // of the directory; zero: nothing is deleted
	Log    *slog.Logger // logs what is deleted; not nil if there are limits

	mu      sync.Mutex
	service spatev1.ControlServiceClient // of the current session; nil: none
}

// SetService sets the connection over which datasets are fetched. Nil: there is none.
func (d *Fetcher) SetService(service spatev1.ControlServiceClient) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.service = service
}

func (d *Fetcher) coordinator() spatev1.ControlServiceClient {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.service
}

// Path returns the path of a dataset's file. If the file is missing, Path fetches it, blocks until it has arrived or
// ctx ends, and then deletes datasets beyond the limits. It retries when the connection breaks, and returns any other
// error at once.
func (d *Fetcher) Path(ctx context.Context, ds *spatev1.Dataset) (string, error) {
	if d.Dir == "" {
		return "", fmt.Errorf("dataset %s: there is no directory for datasets", ds.GetSha256())
	}
	s, err := Open(d.Dir)
	if err != nil {
		return "", err
	}
	if path, found, err := s.Path(ds.GetSha256(), ds.GetSize()); err != nil || found {
		return path, err
	}
	if most := d.Limits.Bytes; most > 0 && ds.GetSize() > most {
		return "", fmt.Errorf("dataset %s has %d bytes, and at most %d of all datasets are kept here: raise "+
			"--keep-datasets-size",
			ds.GetSha256(), ds.GetSize(), most)
	}
	path, err := d.fetch(ctx, s, ds)
	if err == nil {
		d.prune(s)
	}
	return path, err
}

// Open deletes datasets beyond the limits, if there is a directory.
func (d *Fetcher) Open() {
	if _, err := os.Stat(d.Dir); err != nil {
		return // the directory is made when it is needed
	}
	if s, err := Open(d.Dir); err == nil {
		d.prune(s)
	}
}

// prune deletes datasets beyond the limits. Recently used ones stay. One that a stage has open stays on disk until it
// is closed.
func (d *Fetcher) prune(s *Store) {
	if d.Limits == (files.Limits{}) {
		return
	}
	gone, err := s.Prune(d.Limits, time.Now(), nil)
	for _, g := range gone {
		d.Log.Info("dataset removed: the directory was beyond its limits",
			"sha256", g.Name, "bytes", g.Bytes, "used", g.Used)
	}
	if err != nil {
		d.Log.Warn("datasets cannot be removed", "error", err)
	}
}

// fetchPause is the time before an interrupted transfer is resumed.
const fetchPause = 500 * time.Millisecond

// fetch copies a dataset from the coordinator.
func (d *Fetcher) fetch(ctx context.Context, s *Store, ds *spatev1.Dataset) (path string, err error) {
	in, err := s.Create(ds.GetSha256(), ds.GetSize())
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, in.Discard()) }()
	for in.Written() < ds.GetSize() {
		err := d.transfer(ctx, in, ds)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return "", fmt.Errorf("dataset %s: %w after %d of %d bytes", ds.GetSha256(), context.Cause(ctx),
				in.Written(), ds.GetSize())
		case !transient(err):
			return "", fmt.Errorf("dataset %s cannot be fetched: %s", ds.GetSha256(), reason.Plain(err.Error()))
		default:
			clock.Sleep(ctx, fetchPause)
		}
	}
	return in.Commit()
}

// errNotConnected is returned when there is no connection to fetch over.
var errNotConnected = status.Error(codes.Unavailable, "not connected to the coordinator")

// transfer copies the missing bytes, until the connection breaks.
func (d *Fetcher) transfer(ctx context.Context, in *Incoming, ds *spatev1.Dataset) error {
	service := d.coordinator()
	if service == nil {
		return errNotConnected
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := service.FetchDataset(ctx, &spatev1.FetchDatasetRequest{Sha256: ds.GetSha256(), Offset: in.Written()})
	if err != nil {
		return err
	}
	if err := ReceivePieces(in, stream.Recv); err != nil {
		return err
	}
	if in.Written() < ds.GetSize() {
		return fmt.Errorf("the coordinator's file ends after %d of %d bytes", in.Written(), ds.GetSize())
	}
	return nil
}

// transient reports whether another attempt may succeed: the connection broke.
func transient(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return true
	default:
		return false
	}
}

// The rest of this file moves files between a coordinator and its peers in pieces: datasets to and from its store, and
// the ledgers of runs that have ended. It knows nothing of runs.

// pieceSize is the size of the pieces in which files are sent.
const pieceSize = 256 << 10

// piece is a message with a piece of a file.
type piece interface{ GetData() []byte }

// ReceivePieces writes the pieces of a file until recv returns io.EOF. It returns the error of recv or f.
func ReceivePieces[P piece](f io.Writer, recv func() (P, error)) error {
	for {
		m, err := recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := f.Write(m.GetData()); err != nil {
			return err
		}
	}
}

// SendPieces reads a file to its end and sends its bytes in order, in pieces of at most 256 KiB.
// Its error is a status, or that of send.
func SendPieces(f io.Reader, send func(piece []byte) error) error {
	piece := make([]byte, pieceSize)
	for {
		n, err := io.ReadFull(f, piece)
		if n > 0 {
			if err := send(piece[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return status.Errorf(codes.Internal, "file cannot be read: %v", err)
		}
	}
}
