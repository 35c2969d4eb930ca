package runcmd

import (
	"context"
	"errors"
	"fmt"
	"io"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"

	"github.com/spate-load/spate/workload/store"
)

// handOver makes sure that the coordinator has a plan's datasets. A coordinator in this process uses the same
// directory, so it already has them.
func handOver(
	ctx context.Context, client spatev1.RunServiceClient, dir string, datasets map[string]*spatev1.Dataset,
) error {
	for workload, d := range datasets {
		there, err := client.FindDataset(ctx, &spatev1.FindDatasetRequest{Sha256: d.GetSha256()})
		if err == nil && !there.GetComplete() {
			err = put(ctx, client, dir, d)
		}
		if err != nil {
			return fmt.Errorf("cannot send the rows of workload %s to the coordinator: %w", workload, err)
		}
	}
	return nil
}

// putPiece is the size of the pieces in which a dataset is sent.
const putPiece = 256 << 10

// put sends one dataset.
func put(ctx context.Context, client spatev1.RunServiceClient, dir string, d *spatev1.Dataset) error {
	s, err := store.Open(dir)
	if err != nil {
		return err
	}
	file, err := s.Open(d.GetSha256())
	if err != nil {
		return err
	}
	defer file.Close()
	stream, err := client.PutDataset(ctx)
	if err != nil {
		return err
	}
	m := &spatev1.PutDatasetRequest{Sha256: d.GetSha256(), Size: d.GetSize()}
	piece := make([]byte, putPiece)
	for {
		n, readErr := file.Read(piece)
		m.Data = piece[:n]
		if err := stream.Send(m); err != nil {
			break // the answer says why
		}
		if errors.Is(readErr, io.EOF) {
			break
		}
		if readErr != nil {
			return readErr
		}
		m = &spatev1.PutDatasetRequest{}
	}
	_, err = stream.CloseAndRecv()
	return err
}
