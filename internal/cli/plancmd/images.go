package plancmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spate-load/spate/internal/files"
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

// maxList is the most bytes of a list of images.
const maxList = 16 << 20

// imagesAt returns the files of a folder, in the order of their names, what a list names, or the one file. Hidden files
// are left out.
func imagesAt(path string) (inputs []dataset.Input, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case filepath.Ext(path) == ".txt" && !info.IsDir():
		return listedImages(path)
	case !info.IsDir():
		return []dataset.Input{imageFile(path, path)}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if name := filepath.Join(path, e.Name()); !e.IsDir() && e.Name()[0] != '.' {
			inputs = append(inputs, imageFile(name, name))
		}
	}
	if len(inputs) == 0 {
		return nil, fmt.Errorf("%s: the folder has no files", path)
	}
	return inputs, nil
}

// listedImages returns the images that a list names, one on each line: by URL, or by a path that is relative to the
// list's folder. Empty lines are left out.
func listedImages(list string) (inputs []dataset.Input, err error) {
	text, err := files.ReadFile(list, maxList)
	if err != nil {
		return nil, err
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		path := strings.TrimSpace(line)
		scheme, _, _ := strings.Cut(path, ":")
		if path == "" {
			continue
		}
		if slices.Contains([]string{"http", "https", "data"}, scheme) {
			inputs = append(inputs, dataset.Input{Name: path})
			continue
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(list), path)
		}
		inputs = append(inputs, imageFile(fmt.Sprintf("%s:%d: %s", list, number, path), path))
	}
	if len(inputs) == 0 {
		return nil, fmt.Errorf("%s: the list names no images: give a URL or a path on each line", list)
	}
	return inputs, nil
}

// imageFile returns the image in a file. Its name has the path, which errors do not repeat.
func imageFile(name, path string) dataset.Input {
	return dataset.Input{Name: name, Open: func() (io.ReadCloser, error) {
		f, err := openFile(path)
		if at, is := errors.AsType[*fs.PathError](err); is {
			err = at.Err
		}
		return f, err
	}}
}
