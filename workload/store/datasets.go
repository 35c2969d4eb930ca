package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/internal/files"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Server serves the datasets of a store. Its methods named after calls have the calls' errors: statuses.
type Server struct {
	// Store holds the datasets.
	Store *Store
	// MaxBytes is the largest dataset that a client may upload, in bytes. 0: no limit.
	MaxBytes uint64
	// Log receives log messages.
	Log *slog.Logger
	// Received is called after each dataset that was received.
	Received func()
}

// FindDataset reports whether a dataset is in the store.
func (d *Server) FindDataset(_ context.Context, q *spatev1.FindDatasetRequest) (*spatev1.FindDatasetResponse, error) {
	f, err := d.open(q.GetSha256())
	if status.Code(err) == codes.NotFound {
		return &spatev1.FindDatasetResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	return &spatev1.FindDatasetResponse{Complete: true}, f.Close()
}

// PutDataset receives a dataset and adds it to the store.
func (d *Server) PutDataset(stream spatev1.RunService_PutDatasetServer) (err error) {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if most := d.MaxBytes; most > 0 && first.GetSize() > most {
		return status.Errorf(codes.InvalidArgument,
			"the dataset has %d bytes, and this coordinator accepts at most %d: see --max-dataset-size",
			first.GetSize(), most)
	}
	in, err := d.Store.Create(first.GetSha256(), first.GetSize())
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	defer func() { err = errors.Join(err, in.Discard()) }()
	for m := first; ; {
		if _, err := in.Write(m.GetData()); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		if m, err = stream.Recv(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	path, err := in.Commit()
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	d.Log.Info("dataset received", "file", path, "bytes", first.GetSize())
	d.Received()
	return stream.SendAndClose(&spatev1.PutDatasetResponse{})
}

// FetchDataset sends a dataset to an agent, from an offset on.
func (d *Server) FetchDataset(q *spatev1.FetchDatasetRequest, stream spatev1.ControlService_FetchDatasetServer) error {
	f, err := d.open(q.GetSha256())
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(int64(q.GetOffset()), io.SeekStart); err != nil {
		return status.Errorf(codes.InvalidArgument, "dataset %s: offset %d: %v", q.GetSha256(), q.GetOffset(), err)
	}
	return SendPieces(f, func(piece []byte) error { return stream.Send(&spatev1.FetchDatasetResponse{Data: piece}) })
}

// open opens a dataset in the store. Its error is a status.
func (d *Server) open(sha256 string) (*os.File, error) {
	f, err := d.Store.Open(sha256)
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, ErrUnknown):
		return nil, status.Errorf(codes.NotFound, "there is no dataset %s here", sha256)
	case errors.Is(err, ErrHash):
		return nil, status.Error(codes.InvalidArgument, err.Error())
	default:
		return nil, status.Error(codes.Internal, err.Error())
	}
}

// Check returns an error unless all datasets of a plan are in the store. Without a dataset, agents could not
// start.
func (d *Server) Check(datasets map[string]*spatev1.Dataset) error {
	for workload, dataset := range datasets {
		_, found, err := d.Store.Path(dataset.GetSha256(), dataset.GetSize())
		if err != nil {
			return fmt.Errorf("workload %s: %w", workload, err)
		}
		if !found {
			return fmt.Errorf("workload %s: dataset %s is not in the coordinator's store: upload it before the plan",
				workload, dataset.GetSha256())
		}
	}
	return nil
}

// A dataset that was used in the last hour is never pruned, whatever the limits: a run that found it here may not have
// opened it yet. An unfinished file is considered abandoned after a day.
const (
	recent    = time.Hour
	abandoned = 24 * time.Hour
)

// List returns the stored datasets by their SHA-256. A dataset that was used in the last hour is held.
func (s *Store) List(now time.Time) ([]files.Item, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("directory of datasets: %w", err)
	}
	var out []files.Item
	for _, e := range entries {
		name, ours := strings.CutSuffix(e.Name(), suffix)
		info, err := e.Info()
		if err != nil || !ours || !hashPattern.MatchString(name) {
			continue // deleted meanwhile, or not a dataset
		}
		used := info.ModTime()
		out = append(out, files.Item{Name: name, Bytes: uint64(info.Size()), Used: used, Held: now.Sub(used) < recent})
	}
	return out, nil
}

// Remove deletes a dataset. A process that has the dataset open can read it to its end. The error wraps ErrHash or
// ErrUnknown, or says why the file cannot be deleted.
func (s *Store) Remove(sha256 string) error {
	path, err := s.file(sha256)
	if err != nil {
		return err
	}
	if err := os.Remove(path); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("dataset %s: %w", sha256, ErrUnknown)
	} else if err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	return nil
}

// Prune deletes the datasets beyond the limits, least recently used first, and abandoned unfinished files. Datasets
// whose SHA-256 is in inUse stay. Prune returns the deleted datasets.
func (s *Store) Prune(l files.Limits, now time.Time, inUse map[string]bool) (gone []files.Item, err error) {
	items, err := s.List(now)
	if err != nil {
		return nil, err
	}
	for i := range items {
		items[i].Held = items[i].Held || inUse[items[i].Name]
	}
	for _, i := range l.Excess(items, now) {
		if e := s.Remove(i.Name); e == nil {
			gone = append(gone, i)
		} else if !errors.Is(e, ErrUnknown) {
			err = errors.Join(err, e)
		}
	}
	return gone, errors.Join(err, s.sweep(now))
}

// sweep deletes abandoned files, unfinished or damaged.
func (s *Store) sweep(now time.Time) (err error) {
	unfinished, _ := fs.Glob(os.DirFS(s.dir), incoming+"*") // the patterns are valid
	aside, _ := fs.Glob(os.DirFS(s.dir), damaged+"*")
	for _, name := range append(unfinished, aside...) {
		path := filepath.Join(s.dir, name)
		if info, e := os.Stat(path); e == nil && now.Sub(info.ModTime()) > abandoned {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}
