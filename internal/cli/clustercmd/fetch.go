package clustercmd

import (
	"context"
	"io"
	"os"

	"github.com/spate-load/spate/internal/files"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/store"
)

// FetchLedger copies a run's ledger from the coordinator to path, as a whole or not at all. A ledger that already
// exists is the coordinator's own: an embedded coordinator keeps its ledger in the run directory from the start.
func FetchLedger(ctx context.Context, client spatev1.RunServiceClient, id, path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	stream, err := client.FetchLedger(ctx, &spatev1.FetchLedgerRequest{RunId: id})
	if err != nil {
		return err
	}
	return files.ReplaceBy(path, func(w io.Writer) error { return store.ReceivePieces(w, stream.Recv) })
}
