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
	err = store.SendPieces(file, func(piece []byte) error {
		m.Data = piece
		err := stream.Send(m)
		m = &spatev1.PutDatasetRequest{}
		return err
	})
	if err != nil && !errors.Is(err, io.EOF) { // io.EOF: the answer says why
		return err
	}
	_, err = stream.CloseAndRecv()
	return err
}
