package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/spate-load/spate/internal/files"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// shelf is a coordinator that has one dataset and interrupts transfers.
type shelf struct {
	spatev1.UnimplementedControlServiceServer
	data   []byte
	breaks atomic.Int32 // transfers that will still be interrupted, halfway
	asked  atomic.Int32
}

func (s *shelf) FetchDataset(q *spatev1.FetchDatasetRequest, stream spatev1.ControlService_FetchDatasetServer) error {
	s.asked.Add(1)
	if q.GetSha256() != hashOfData(s.data) {
		return status.Error(codes.NotFound, "no such dataset")
	}
	rest := s.data[q.GetOffset():]
	if s.breaks.Add(-1) >= 0 {
		if err := stream.Send(&spatev1.FetchDatasetResponse{Data: rest[:len(rest)/2]}); err != nil {
			return err
		}
		return status.Error(codes.Unavailable, "the network broke")
	}
	return stream.Send(&spatev1.FetchDatasetResponse{Data: rest})
}

func hashOfData(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// shelved returns an agent's datasets, connected to a coordinator that has data.
func shelved(t *testing.T, data []byte) (*Fetcher, *shelf) {
	t.Helper()
	s, l, server := &shelf{data: data}, bufconn.Listen(1<<20), grpc.NewServer()
	spatev1.RegisterControlServiceServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///shelf", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Stop()
		if err := errors.Join(conn.Close(), <-served); err != nil &&
			!errors.Is(err, grpc.ErrServerStopped) { // stopped before it started to serve
			t.Error(err)
		}
	})
	d := &Fetcher{Dir: t.TempDir()}
	d.SetService(spatev1.NewControlServiceClient(conn))
	return d, s
}

// TestDatasetIsFetchedOnce: a dataset arrives completely over a connection that breaks, and the next stage finds it.
func TestDatasetIsFetchedOnce(t *testing.T) {
	data := bytes.Repeat([]byte("row\n"), 1000)
	d, s := shelved(t, data)
	s.breaks.Store(2)
	for range 2 {
		path, err := d.Path(context.Background(), &spatev1.Dataset{Sha256: hashOfData(data), Size: uint64(len(data))})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	if n := s.asked.Load(); n != 3 {
		t.Errorf("asked %d times, want two that broke and one that did not", n)
	}
}

// TestUnavailableDatasets: the reason is reported, and nothing waits forever.
func TestUnavailableDatasets(t *testing.T) {
	data := []byte("rows")
	right := &spatev1.Dataset{Sha256: hashOfData(data), Size: uint64(len(data))}
	gone, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("the stage was aborted"))
	for what, c := range map[string]struct {
		ctx    context.Context
		want   *spatev1.Dataset
		change func(*Fetcher)
		says   string
	}{
		"unknown there": {context.Background(), &spatev1.Dataset{Sha256: hashOfData(nil), Size: 1}, nil,
			"no such dataset"},
		"no hash": {context.Background(), &spatev1.Dataset{Sha256: "x", Size: 1}, nil, "SHA-256"},
		"shorter than said": {context.Background(), &spatev1.Dataset{Sha256: hashOfData(data), Size: 9}, nil,
			"ends after 4 of 9"},
		"longer than said": {context.Background(), &spatev1.Dataset{Sha256: hashOfData(data), Size: 3}, nil,
			"more than the announced 3 bytes"},
		"coordinator is gone": {gone, right, func(d *Fetcher) { d.SetService(nil) },
			"the stage was aborted after 0 of 4 bytes"},
		"no directory": {context.Background(), right, func(d *Fetcher) { d.Dir = "" }, "no directory"},
	} {
		d, _ := shelved(t, data)
		if c.change != nil {
			c.change(d)
		}
		if _, err := d.Path(c.ctx, c.want); err == nil || !strings.Contains(err.Error(), c.says) ||
			strings.Contains(err.Error(), "rpc error") {
			t.Errorf("%s: %v", what, err)
		}
		if left, err := os.ReadDir(max(d.Dir, ".")); d.Dir != "" && (err != nil || len(left) > 0) {
			t.Errorf("%s: left %v, %v", what, left, err)
		}
	}
}

// An agent stays within its limits for datasets: the least recently used is deleted, at the agent's start and after
// each fetch.
func TestDatasetsKeepToTheLimits(t *testing.T) {
	data := bytes.Repeat([]byte("row\n"), 1000)
	d, s := shelved(t, data)
	d.Limits = files.Limits{Age: 50 * time.Hour, Bytes: uint64(len(data)) + 10}
	d.Log = slog.New(slog.DiscardHandler)
	put := func(digit string, size int, ago time.Duration) {
		path, used := filepath.Join(d.Dir, strings.Repeat(digit, 64)+".rows"), time.Now().Add(-ago)
		if err := errors.Join(os.WriteFile(path, make([]byte, size), 0o600), os.Chtimes(path, used, used)); err != nil {
			t.Fatal(err)
		}
	}
	for digit, ago := range map[string]time.Duration{"a": 99 * time.Hour, "b": 20 * time.Hour, "c": 10 * time.Hour} {
		put(digit, 9, ago)
	}
	here := func() (names string) {
		left, err := filepath.Glob(filepath.Join(d.Dir, "*.rows"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range left {
			names += filepath.Base(path)[:1]
		}
		return names
	}
	d.Open()
	if left := here(); left != "bc" {
		t.Errorf("%q are left at the start, want those used within 50 hours", left)
	}
	if _, err := d.Path(t.Context(), &spatev1.Dataset{Sha256: hashOfData(data), Size: uint64(len(data))}); err != nil {
		t.Fatal(err)
	}
	if left, want := here(), hashOfData(data)[:1]+"c"; left != want {
		t.Errorf("%q are left, want %q: the new one, and what else there is room for", left, want)
	}
	asked := s.asked.Load()
	_, err := d.Path(t.Context(), &spatev1.Dataset{Sha256: strings.Repeat("d", 64), Size: d.Limits.Bytes + 1})
	if err == nil || !strings.Contains(err.Error(), "raise --keep-datasets-size") || s.asked.Load() != asked {
		t.Errorf("one that is too large: %v, asked %d times", err, s.asked.Load()-asked)
	}
}
