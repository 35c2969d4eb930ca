package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// rows is a dataset of several pieces.
var rows = bytes.Repeat([]byte("row\n"), pieceSize)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pieceService serves datasets as a coordinator does.
type pieceService struct {
	spatev1.UnimplementedControlServiceServer
	spatev1.UnimplementedRunServiceServer
	d *Server
}

func (s pieceService) FindDataset(
	ctx context.Context, q *spatev1.FindDatasetRequest,
) (*spatev1.FindDatasetResponse, error) {
	return s.d.FindDataset(ctx, q)
}

func (s pieceService) PutDataset(stream spatev1.RunService_PutDatasetServer) error {
	return s.d.PutDataset(stream)
}

func (s pieceService) FetchDataset(
	q *spatev1.FetchDatasetRequest, stream spatev1.ControlService_FetchDatasetServer,
) error {
	return s.d.FetchDataset(q, stream)
}

// harness is a client of a store.
type harness struct {
	t        *testing.T
	runs     spatev1.RunServiceClient
	control  spatev1.ControlServiceClient
	datasets *Server
	received int
}

func startServer(t *testing.T) *harness {
	t.Helper()
	h := &harness{t: t}
	store, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h.datasets = &Server{Store: store, Log: slog.New(slog.DiscardHandler), Received: func() { h.received++ }}
	l, server := bufconn.Listen(1<<20), grpc.NewServer()
	spatev1.RegisterControlServiceServer(server, pieceService{d: h.datasets})
	spatev1.RegisterRunServiceServer(server, pieceService{d: h.datasets})
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:coordinator", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Stop()
		if err := errors.Join(conn.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
	h.runs, h.control = spatev1.NewRunServiceClient(conn), spatev1.NewControlServiceClient(conn)
	return h
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
	stream, err := h.control.FetchDataset(context.Background(),
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
	h := startServer(t)
	hash := hashOfData(rows)
	if h.has(hash) {
		t.Fatal("it is there before it came")
	}
	if err := h.put(hash, len(rows), rows); err != nil {
		t.Fatal(err)
	}
	if !h.has(hash) || h.received != 1 {
		t.Fatalf("it is not there, or %d were received", h.received)
	}
	for _, offset := range []int{0, 1, pieceSize, len(rows) - 1, len(rows)} {
		if got, err := h.fetchDataset(hash, uint64(offset)); err != nil || !bytes.Equal(got, rows[offset:]) {
			t.Errorf("from %d: %d bytes, %v", offset, len(got), err)
		}
	}
}

// TestDatasetRefused: bytes that do not match the announced hash and size are refused.
func TestDatasetRefused(t *testing.T) {
	h := startServer(t)
	hash := hashOfData(rows)
	for what, err := range map[string]error{
		"too few bytes":  h.put(hash, len(rows), rows[1:]),
		"too many bytes": h.put(hash, len(rows)-1, rows),
		"other bytes":    h.put(hashOfData(nil), len(rows), rows),
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

func TestDatasetsThatAreTooLargeAreRefused(t *testing.T) {
	h := startServer(t)
	h.datasets.MaxBytes = 100
	if err := h.put("00", 101, []byte("x")); status.Code(err) != codes.InvalidArgument {
		t.Errorf("error %v", err)
	}
}
