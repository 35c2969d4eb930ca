package coordinator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// rows is a dataset of several pieces.
var rows = bytes.Repeat([]byte("row\n"), pieceSize)

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// put uploads a dataset in pieces.
func (h *harness) put(sha256 string, size int, data []byte) error {
	h.t.Helper()
	stream, err := h.runs.PutDataset(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	m := &spatev1.PutDatasetRequest{Sha256: sha256, Size: uint64(size)}
	for {
		n := min(len(data), pieceSize)
		m.Data, data = data[:n], data[n:]
		if err := stream.Send(m); err != nil || len(data) == 0 {
			break // the answer has the reason
		}
		m = &spatev1.PutDatasetRequest{}
	}
	_, err = stream.CloseAndRecv()
	return err
}

// fetchDataset fetches a dataset like an agent.
func (h *harness) fetchDataset(sha256 string, offset uint64) ([]byte, error) {
	h.t.Helper()
	stream, err := spatev1.NewControlServiceClient(h.conn).FetchDataset(context.Background(),
		&spatev1.FetchDatasetRequest{Sha256: sha256, Offset: offset})
	if err != nil {
		h.t.Fatal(err)
	}
	var all []byte
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, m.GetData()...)
	}
}

func (h *harness) has(sha256 string) bool {
	h.t.Helper()
	r, err := h.runs.FindDataset(context.Background(), &spatev1.FindDatasetRequest{Sha256: sha256})
	if err != nil {
		h.t.Fatal(err)
	}
	return r.GetComplete()
}

// TestDatasetPassesThrough: agents get what a client uploaded, from any offset on.
func TestDatasetPassesThrough(t *testing.T) {
	h := start(t)
	hash := hashOf(rows)
	if h.has(hash) {
		t.Fatal("it is there before it came")
	}
	if err := h.put(hash, len(rows), rows); err != nil {
		t.Fatal(err)
	}
	if !h.has(hash) {
		t.Fatal("it is not there")
	}
	for _, offset := range []int{0, 1, pieceSize, len(rows) - 1, len(rows)} {
		if got, err := h.fetchDataset(hash, uint64(offset)); err != nil || !bytes.Equal(got, rows[offset:]) {
			t.Errorf("from %d: %d bytes, %v", offset, len(got), err)
		}
	}
}

// TestDatasetRefused: bytes that do not match the announced hash and size are refused.
func TestDatasetRefused(t *testing.T) {
	h := start(t)
	hash := hashOf(rows)
	for what, err := range map[string]error{
		"too few bytes":  h.put(hash, len(rows), rows[1:]),
		"too many bytes": h.put(hash, len(rows)-1, rows),
		"other bytes":    h.put(hashOf(nil), len(rows), rows),
		"no hash":        h.put("../x", len(rows), rows),
	} {
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", what, err)
		}
	}
	if h.has(hash) {
		t.Error("it is there all the same")
	}
	if _, err := h.fetchDataset(hash, 0); status.Code(err) != codes.NotFound {
		t.Errorf("fetching what is not there: %v", err)
	}
	if _, err := h.fetchDataset("../x", 0); status.Code(err) != codes.InvalidArgument {
		t.Errorf("fetching by a path: %v", err)
	}
}

// TestPlanWithoutItsDataset: the plan is refused before any agent waits for the dataset.
func TestPlanWithoutItsDataset(t *testing.T) {
	h := start(t)
	_, err := h.runs.SubmitRun(context.Background(), &spatev1.SubmitRunRequest{
		PlanYaml: []byte(plan), Secrets: map[string]string{"env:KEY": secretKey},
		Datasets: map[string]*spatev1.Dataset{"10:5": {Sha256: hashOf(rows), Size: uint64(len(rows))}},
	})
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("%v", err)
	}
}
