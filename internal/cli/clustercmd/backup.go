package clustercmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/coordinator/backup"
	"github.com/spate-load/spate/coordinator/storage"
	"github.com/spate-load/spate/coordinator/transfer"
	"github.com/spate-load/spate/internal/cli/client"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/words"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/watch/show"
)

// NewBackup makes `spate backup`.
func NewBackup() *cobra.Command {
	var f client.Flags
	cmd := &cobra.Command{
		Use:   "backup FILE --coordinator HOST:PORT",
		Short: "Copy a coordinator's state into a file while it runs",
		Long: `Copy what a coordinator has in --data-dir into a file, a tar archive, while it runs: the ledgers of
all runs, also of those that wait or are in progress, the datasets of these, the history, which
agents are cordoned, and the audit log. The file is checked before it gets its name. An existing
file is kept.
"spate restore" makes a data directory of it.`,
		Example: "  spate backup spate.tar --coordinator 127.0.0.1:7700",
		Args:    command.Arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := os.Lstat(args[0]); err == nil {
				return command.BadInputf("%s is there already: name another file", args[0])
			}
			conn, err := f.Connect()
			if err != nil {
				return err
			}
			defer conn.Close()
			stream, err := spatev1.NewRunServiceClient(conn).Backup(cmd.Context(), &spatev1.BackupRequest{})
			if err != nil {
				return client.Unreachable(f.Coordinator, err)
			}
			m, err := receive(stream, args[0], f.Coordinator)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", args[0], inWords(m))
			return err
		},
	}
	f.Add(cmd.Flags())
	return cmd
}

// receive writes a backup to a file, which gets its name when it is complete and has been checked.
func receive(stream spatev1.RunService_BackupClient, to, coordinator string) (m backup.Manifest, err error) {
	file, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".part-*") // another backup may write to the same name
	if err != nil {
		return m, command.BadInput(err)
	}
	part := file.Name()
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(err, os.Remove(part))
			return
		}
		if _, there := os.Lstat(to); there == nil { // another backup has ended meanwhile
			err = errors.Join(command.BadInputf("%s is there by now: name another file", to), os.Remove(part))
			return
		}
		err = os.Rename(part, to)
	}()
	err = transfer.Receive(file, func() (*spatev1.BackupResponse, error) {
		piece, err := stream.Recv()
		if err != nil && !errors.Is(err, io.EOF) {
			err = client.Unreachable(coordinator, err)
		}
		return piece, err
	})
	if err != nil {
		return m, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return m, err
	}
	m, err = backup.Check(file)
	return m, errors.Join(err, file.Sync())
}

// inWords says what a backup holds: "12 runs, 3 other files, 34,567,890 bytes".
func inWords(m backup.Manifest) string {
	runs, bytes := uint64(0), uint64(0)
	for _, f := range m.Files {
		bytes += uint64(f.Bytes)
		if path.Base(f.Name) == ledger.File {
			runs++
		}
	}
	return fmt.Sprintf("%s, %s, %s bytes", words.Count(runs, "run"),
		words.Count(uint64(len(m.Files))-runs, "other file"), words.Thousands(bytes))
}

// NewRestore makes `spate restore`.
func NewRestore() *cobra.Command {
	var dataDir string
	cmd := &cobra.Command{
		Use:   "restore FILE --data-dir DIRECTORY",
		Short: "Make a coordinator's data directory of a backup",
		Long: `Make a coordinator's data directory of a file that "spate backup" wrote, and list its runs. The
directory must be empty or new. If the file is damaged, nothing is left in the directory.

A coordinator that is started in the directory continues the runs that were waiting or in progress.
If a run must not run again, remove its directory, which is named after it, before that.`,
		Example: "  spate restore spate.tar --data-dir runs\n  spate-coordinator --data-dir runs",
		Args:    command.Arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dataDir == "" {
				return command.BadInputf("--data-dir is missing: name the coordinator's new directory")
			}
			return restore(cmd.OutOrStdout(), args[0], dataDir)
		},
	}
	cmd.Flags().StringVar(&dataDir, "data-dir", "", "`directory` for the coordinator's --data-dir, empty or new")
	return cmd
}

// unrestored gives the error of a restore its exit code: it is a person's mistake, unless a disk is full or broken.
func unrestored(err error) error {
	failed, of := errors.AsType[*fs.PathError](err)
	if of && slices.Contains([]string{"read", "write", "sync", "close"}, failed.Op) ||
		errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EIO) {
		return err
	}
	return command.BadInput(err)
}

// restore restores a backup and lists its runs.
func restore(out io.Writer, from, dir string) error {
	file, err := os.Open(from)
	if err != nil {
		return command.BadInput(err)
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return command.BadInputf("%s is a directory: name a file that spate backup wrote", from)
	}
	m, err := backup.Restore(file, dir)
	if err != nil {
		return unrestored(fmt.Errorf("%s: %w", from, err))
	}
	runs, err := storage.New(dir, "").Newest(len(m.Files), nil)
	if err != nil {
		return err
	}
	continued := 0
	for _, r := range runs {
		if r.GetState() != spatev1.RunState_RUN_STATE_BROKEN || r.GetReason() != "" {
			continue
		}
		continued++
		if r.State = spatev1.RunState_RUN_STATE_RUNNING; r.GetBeginTime() == nil {
			r.State = spatev1.RunState_RUN_STATE_WAITING
		}
	}
	fmt.Fprintf(out, "%s: %s, as of %s\n", dir, inWords(m), m.Time.Format(time.RFC3339))
	if len(runs) > 0 {
		t := tableOf(show.Runs(runs, m.Time, time.Local))
		t.Narrow(terminal.Width(out))
		if err := t.Write(out); err != nil {
			return err
		}
	}
	if continued > 0 {
		_, err = fmt.Fprintf(out, "A coordinator that is started here continues %s: those running or waiting.\n",
			words.Count(uint64(continued), "run"))
	}
	return err
}
