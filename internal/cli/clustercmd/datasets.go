package clustercmd

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/workload/store"
)

// NewDatasets makes `spate datasets` and its subcommands.
func NewDatasets() *cobra.Command {
	var output outputFlag
	cmd := &cobra.Command{
		Use:   "datasets",
		Short: "List the datasets that this user's runs keep, and remove them",
		Long: `List the datasets that were made from the files of plans. They are in the user's cache, so that the
next run of a plan does not send them again. If one is gone, it is made again from its file. Each
run removes datasets that were not used for 90 days, and the oldest beyond 32 GiB:
SPATE_DATASET_CACHE_AGE and SPATE_DATASET_CACHE_SIZE set other limits (0: none). A file may have 64
GiB of text: SPATE_DATASET_MAX_SIZE sets another limit.`,
		Example: "  spate datasets\n  spate datasets rm 4f1c\n  spate datasets rm --all",
		Args:    command.Arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, items, err := ownDatasets()
			if err != nil {
				return err
			}
			if output.Output == "json" {
				return writeJSON(cmd.OutOrStdout(), datasetsAsJSON(items))
			}
			return writeDatasets(cmd.OutOrStdout(), items)
		},
	}
	command.Declare(cmd.Flags(), &output)
	cmd.AddCommand(newDatasetsRemove())
	return cmd
}

func newDatasetsRemove() *cobra.Command {
	var f struct {
		All bool `flag:"all" help:"remove all datasets"`
	}
	cmd := &cobra.Command{
		Use:     "rm SHA256...",
		Short:   "Remove datasets, by the first digits of their hashes",
		Example: "  spate datasets rm 4f1c\n  spate datasets rm --all",
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.All == (len(args) > 0) {
				return command.BadInputf(
					"name datasets by the first digits of their hashes, or give --all\nsee: spate datasets",
				)
			}
			return removeDatasets(cmd.OutOrStdout(), args)
		},
	}
	command.Declare(cmd.Flags(), &f)
	return cmd
}

// ownDatasets returns the user's datasets, the most recently used first.
func ownDatasets() (*store.Store, []files.Item, error) {
	s, err := store.Open(command.DatasetDir())
	if err != nil {
		return nil, nil, err
	}
	items, err := s.List(time.Now())
	slices.SortStableFunc(items, func(a, b files.Item) int { return b.Used.Compare(a.Used) })
	return s, items, err
}

// removeDatasets removes the datasets whose hashes start as given, or all if begins is empty.
func removeDatasets(out io.Writer, begins []string) error {
	s, items, err := ownDatasets()
	if err != nil {
		return err
	}
	chosen := items
	if len(begins) > 0 {
		if chosen, err = datasetsNamed(items, begins); err != nil {
			return command.BadInput(err)
		}
	}
	bytes := uint64(0)
	for _, d := range chosen {
		if err := s.Remove(d.Name); err != nil && !errors.Is(err, store.ErrUnknown) {
			return err
		}
		bytes += d.Bytes
	}
	fmt.Fprintf(out, "%s removed, %s\n", words.Count(uint64(len(chosen)), "dataset"), sizeWords(bytes))
	return nil
}

// datasetsNamed finds each dataset by the first digits of its hash.
func datasetsNamed(items []files.Item, begins []string) (out []files.Item, err error) {
	for _, begin := range begins {
		var found []files.Item
		for _, d := range items {
			if begin != "" && strings.HasPrefix(d.Name, begin) {
				found = append(found, d)
			}
		}
		switch {
		case len(found) == 0:
			return nil, fmt.Errorf("there is no dataset %q\nsee: spate datasets", begin)
		case len(found) > 1:
			return nil, fmt.Errorf("%d datasets start with %q: give more digits\nsee: spate datasets",
				len(found), begin)
		case !slices.Contains(out, found[0]):
			out = append(out, found[0])
		}
	}
	return out, nil
}

// writeDatasets prints datasets as a table, and the space that they take up.
func writeDatasets(w io.Writer, items []files.Item) error {
	if len(items) == 0 {
		_, err := fmt.Fprintf(w, "No datasets in %s.\n", command.DatasetDir())
		return err
	}
	t := table.New(table.Words("DATASET"), table.Numbers("SIZE"), table.Words("USED"))
	bytes := uint64(0)
	for _, d := range items {
		t.Add(d.Name[:16], sizeWords(d.Bytes), d.Used.Local().Format("2006-01-02 15:04"))
		bytes += d.Bytes
	}
	if err := t.Write(w, 0); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s, %s, in %s\n", words.Count(uint64(len(items)), "dataset"), sizeWords(bytes),
		command.DatasetDir())
	return err
}

// sizeWords formats a size for people.
func sizeWords(bytes uint64) string {
	switch v := float64(bytes); {
	case v >= 1<<30:
		return fmt.Sprintf("%.1f GiB", v/(1<<30))
	case v >= 1<<20:
		return fmt.Sprintf("%.1f MiB", v/(1<<20))
	default:
		return fmt.Sprintf("%.1f KiB", v/(1<<10))
	}
}

// datasetJSON is a dataset in the JSON list.
type datasetJSON struct {
	SHA256 string `json:"sha256"`
	Bytes  uint64 `json:"bytes"`
	Used   string `json:"used_time"`
}

func datasetsAsJSON(items []files.Item) []datasetJSON {
	list := make([]datasetJSON, 0, len(items))
	for _, d := range items {
		list = append(list, datasetJSON{d.Name, d.Bytes, d.Used.UTC().Format(time.RFC3339)})
	}
	return list
}
