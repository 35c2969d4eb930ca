package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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
func (d *Server) FindDataset(
	_ context.Context, q *spatev1.FindDatasetRequest,
) (*spatev1.FindDatasetResponse, error) {
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
func (d *Server) FetchDataset(
	q *spatev1.FetchDatasetRequest, stream spatev1.ControlService_FetchDatasetServer,
) error {
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
