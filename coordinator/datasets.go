package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/store"
)

// FindDataset reports whether a dataset is in the store.
func (s runService) FindDataset(
	_ context.Context, q *spatev1.FindDatasetRequest,
) (*spatev1.FindDatasetResponse, error) {
	f, err := s.c.openDataset(q.GetSha256())
	if status.Code(err) == codes.NotFound {
		return &spatev1.FindDatasetResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	return &spatev1.FindDatasetResponse{Complete: true}, f.Close()
}

// PutDataset receives a dataset and adds it to the store.
func (s runService) PutDataset(stream spatev1.RunService_PutDatasetServer) (err error) {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if most := s.c.cfg.MaxDataset; most > 0 && first.GetSize() > most {
		return status.Errorf(codes.InvalidArgument,
			"the dataset has %d bytes, and this coordinator accepts at most %d: see --max-dataset-size",
			first.GetSize(), most)
	}
	in, err := s.c.store.Create(first.GetSha256(), first.GetSize())
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
	s.c.log.Info("dataset received", "file", path, "bytes", first.GetSize())
	s.c.tidy(time.Now())
	return stream.SendAndClose(&spatev1.PutDatasetResponse{})
}

// FetchDataset sends a dataset to an agent, from an offset on.
func (s controlService) FetchDataset(
	q *spatev1.FetchDatasetRequest, stream spatev1.ControlService_FetchDatasetServer,
) error {
	f, err := s.c.openDataset(q.GetSha256())
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(int64(q.GetOffset()), io.SeekStart); err != nil {
		return status.Errorf(codes.InvalidArgument, "dataset %s: offset %d: %v", q.GetSha256(), q.GetOffset(), err)
	}
	return inPieces(f, func(piece []byte) error { return stream.Send(&spatev1.FetchDatasetResponse{Data: piece}) })
}

// openDataset opens a dataset in the store. Its error is a status.
func (c *Coordinator) openDataset(sha256 string) (*os.File, error) {
	f, err := c.store.Open(sha256)
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, store.ErrUnknown):
		return nil, status.Errorf(codes.NotFound, "there is no dataset %s here", sha256)
	case errors.Is(err, store.ErrHash):
		return nil, status.Error(codes.InvalidArgument, err.Error())
	default:
		return nil, status.Error(codes.Internal, err.Error())
	}
}

// haveDatasets returns an error unless all datasets of a plan are in the store. Without a dataset, agents could not
// start.
func (c *Coordinator) haveDatasets(datasets map[string]*spatev1.Dataset) error {
	for workload, d := range datasets {
		_, found, err := c.store.Path(d.GetSha256(), d.GetSize())
		if err != nil {
			return fmt.Errorf("workload %s: %w", workload, err)
		}
		if !found {
			return fmt.Errorf("workload %s: dataset %s is not in the coordinator's store: upload it before the plan",
				workload, d.GetSha256())
		}
	}
	return nil
}

// inPieces reads a file to its end and sends its bytes in order, in pieces of pieceSize.
func inPieces(f io.Reader, send func(piece []byte) error) error {
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
