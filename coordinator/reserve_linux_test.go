package coordinator

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/clustertest"
	"github.com/spate-load/spate/coordinator/storage"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// smallDisk mounts a disk of a few MiB for one test.
func smallDisk(t *testing.T) string {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", 8<<20)); err != nil {
		t.Skipf("no small disk can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillDisk writes a file until the disk is full.
func fillDisk(t *testing.T, dir string) {
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 64<<10); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	_ = f.Close() // its content does not matter
}

// fillUp fills the disk until nothing more can be written to the ledger, not even into its free pages.
func fillUp(t *testing.T, l *ledger.Ledger, dir string) {
	fillDisk(t, dir)
	text := strings.Repeat("x", 64<<10)
	for n := uint64(1); ; n++ {
		notice := &spatev1.RunEvent{Event: &spatev1.RunEvent_Notice{Notice: &spatev1.Notice{Text: text}}}
		if l.Put(ledger.Change{Events: []*spatev1.FollowRunResponse{{Number: n, Event: notice}}}) != nil {
			if len(text) == 1 {
				return
			}
			text = text[:len(text)/2]
		}
	}
}

// If a run ends because the disk is full, its end is still written to the ledger, but only thanks to the reserve.
func TestEndIsWrittenToAFullDisk(t *testing.T) {
	for _, held := range []bool{true, false} {
		t.Run(fmt.Sprintf("reserve held: %v", held), func(t *testing.T) {
			dir := smallDisk(t)
			c := &ground{storage: storage.New(dir, ""), log: slog.New(slog.DiscardHandler)}
			const id = "full"
			if err := os.MkdirAll(c.storage.Dir(id), 0o755); err != nil {
				t.Fatal(err)
			}
			record := &spatev1.RunRecord{RunId: id}
			l, err := ledger.Create(c.storage.Ledger(id), ledger.Change{Run: record})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if held {
				c.storage.Reserve(id).Hold(c.log)
				c.storage.Reserve(id).Hold(c.log) // holding it again changes nothing
			}
			fillUp(t, l, dir)
			record.EndTime, record.Reason = timestamppb.Now(), strings.Repeat("the disk is full; ", 1000)
			r := &run{ground: c, id: id, disk: storage.Watch(l, clock.Now)}
			err = r.write(ledger.Change{Run: record})
			if written := err == nil; written != held {
				t.Errorf("the end is written: %v (%v)", written, err)
			}
			if c.storage.Reserve(id).Release() {
				t.Error("the reserve is still held")
			}
		})
	}
}

// A run whose ledger cannot be created because the disk is full leaves no directory.
func TestNothingIsLeftOfARunOnAFullDisk(t *testing.T) {
	dir := smallDisk(t)
	fillDisk(t, dir)
	plan, err := plans.Load("plan.yaml", []byte(clustertest.Plan), plans.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &ground{storage: storage.New(dir, ""), log: slog.New(slog.DiscardHandler)}
	q := queue{ground: c}
	if _, err := q.create(submission{plan: plan}, time.Now()); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("%v, want a full disk", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 { // the file that fills the disk
		t.Errorf("%v, %v are left", left, err)
	}
}
