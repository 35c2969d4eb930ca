package client

import (
	"context"
	"errors"
	"io"
	"os"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// FetchLedger copies a run's ledger from the coordinator to path, as a whole or not at all. A ledger that already
// exists is the coordinator's own: an embedded coordinator keeps its ledger in the run directory from the start.
func FetchLedger(ctx context.Context, client spatev1.RunServiceClient, id, path string) (err error) {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	stream, err := client.FetchLedger(ctx, &spatev1.FetchLedgerRequest{RunId: id})
	if err != nil {
		return err
	}
	file, err := os.Create(path + ".part")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(path+".part"))
		}
	}()
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(err, file.Close())
		}
		if _, err := file.Write(piece.GetData()); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}
