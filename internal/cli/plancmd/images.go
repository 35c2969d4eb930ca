package plancmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/dataset"
)

// images turns a workload's images into rows in the store.
func (g *gatherer) images(ctx context.Context, f plans.File) {
	inputs, err := imagesAt(f.Path)
	if err != nil {
		g.wrong(f, err)
		return
	}
	var rows *spatev1.Dataset
	_, err = g.store.Build(func(dst *os.File) (string, error) {
		rows, err = dataset.BuildImages(ctx, dst, f.Workload, inputs)
		return rows.GetSha256(), err
	})
	if err != nil {
		g.wrong(f, err)
		return
	}
	g.resources.Datasets[f.Workload.GetName()] = rows
	if !g.quiet {
		fmt.Fprintf(g.notes, "%s: %s of %s\n", f.Workload.GetName(), words.Count(rows.GetRows(), "image"), f.Path)
	}
}

// imagesAt returns the files of a folder, in the order of their names, or the one file. Hidden files are left out.
func imagesAt(path string) (inputs []dataset.Input, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	names := []string{path}
	if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		names = nil
		for _, e := range entries {
			if !e.IsDir() && e.Name()[0] != '.' {
				names = append(names, filepath.Join(path, e.Name()))
			}
		}
	}
	for _, name := range names {
		open := func() (io.ReadCloser, error) { return openFile(name) }
		inputs = append(inputs, dataset.Input{Name: name, Open: open})
	}
	if len(inputs) == 0 {
		return nil, fmt.Errorf("%s: the folder has no files", path)
	}
	return inputs, nil
}
