package plancmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/workload/dataset"
)

// splitHub splits the path hf://ORG/NAME/PATH of a file of a dataset on Hugging Face's Hub into ORG/NAME and PATH,
// which may be empty. hub is false for other paths.
func splitHub(path string) (dataset, file string, hub bool) {
	rest, hub := strings.CutPrefix(path, plans.HubPrefix)
	parts := append(strings.SplitN(rest, "/", 3), "", "")
	return parts[0] + "/" + parts[1], parts[2], hub
}

// local returns the path of a plan's file. What the Hub's cache has of a dataset is read there.
func local(path string) string {
	dataset, file, hub := splitHub(path)
	home, _ := os.UserHomeDir() // without one there is no cache
	root := cmp.Or(os.Getenv("HF_HUB_CACHE"),
		filepath.Join(cmp.Or(os.Getenv("HF_HOME"), filepath.Join(home, ".cache", "huggingface")), "hub"))
	dir := filepath.Join(root, "datasets--"+strings.ReplaceAll(dataset, "/", "--"))
	if revision, err := os.ReadFile(filepath.Join(dir, "refs", "main")); hub && err == nil {
		found := filepath.Join(dir, "snapshots", strings.TrimSpace(string(revision)), filepath.FromSlash(file))
		if _, err := os.Stat(found); err == nil {
			return found
		}
	}
	return path
}

// openHub asks the Hub for a file of a dataset, or for its only one. Parquet, which is not read as a stream, is kept in
// a temporary file while it is read. The caller closes what openHub returns.
func openHub(ctx context.Context, of, file string) (io.ReadCloser, error) {
	if file == "" {
		var err error
		if file, err = onlyFile(ctx, of); err != nil {
			return nil, err
		}
	}
	body, err := askHub(ctx, "/datasets/"+of+"/resolve/main/"+file)
	if err == nil && strings.EqualFold(filepath.Ext(file), ".parquet") {
		kept, err := keep(body, mostParquet)
		return kept, errors.Join(err, body.Close())
	}
	return body, err
}

// onlyFile asks the Hub for the name of the file with a dataset's rows. Of several, it is the one for training.
func onlyFile(ctx context.Context, of string) (string, error) {
	body, err := askHub(ctx, "/api/datasets/"+of)
	if err != nil {
		return "", err
	}
	var listing struct {
		Siblings []struct {
			Name string `json:"rfilename"`
		} `json:"siblings"`
	}
	err = errors.Join(json.NewDecoder(io.LimitReader(body, mostListing)).Decode(&listing), body.Close())
	if err != nil {
		return "", fmt.Errorf("the Hub's list of the files of %s: %w", of, err)
	}
	var files []string
	for _, s := range listing.Siblings {
		if dataset.HasRows(s.Name) {
			files = append(files, s.Name)
		}
	}
	train := slices.DeleteFunc(slices.Clone(files), func(name string) bool { return !strings.Contains(name, "train") })
	for _, list := range [][]string{files, train} {
		if len(list) == 1 {
			return list[0], nil
		}
	}
	return "", fmt.Errorf("%s has %d files of rows: name one, hf://%s/FILE, or run hf download --repo-type dataset %s: %s",
		of, len(files), of, of, strings.Join(files[:min(len(files), mostNamed)], ", "))
}

// mostListing is how many bytes of a list of files are read, and mostNamed how many files a message names.
const mostListing, mostNamed = 16 << 20, 20

// askHub returns what the Hub has at a path.
func askHub(ctx context.Context, path string) (io.ReadCloser, error) {
	at := strings.TrimSuffix(cmp.Or(os.Getenv("HF_ENDPOINT"), "https://huggingface.co"), "/") +
		(&url.URL{Path: path}).EscapedPath()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	if token := os.Getenv("HF_TOKEN"); token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	r, err := http.DefaultClient.Do(q)
	switch {
	case err != nil:
		return nil, err
	case r.StatusCode != http.StatusOK:
		return nil, errors.Join(fmt.Errorf("%s answers %s: see its name, and HF_TOKEN if it is not public", at, r.Status),
			r.Body.Close())
	}
	return r.Body, nil
}

// mostParquet is how much a Hub may send of a file: as much as a dataset may have text.
const mostParquet = 64 << 30

// keep copies a stream of at most that many bytes into a temporary file without a name. The caller closes it.
func keep(src io.Reader, most int64) (*os.File, error) {
	f, err := os.CreateTemp("", "spate-dataset-*")
	if err != nil {
		return nil, err
	}
	n, copied := io.Copy(f, io.LimitReader(src, most+1))
	if n > most {
		copied = fmt.Errorf("the Hub sends more than %s", words.Bytes(most))
	}
	_, sought := f.Seek(0, io.SeekStart)
	if err := errors.Join(os.Remove(f.Name()), copied, sought); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// reading reads a file of a plan until its context ends.
type reading struct {
	ctx context.Context
	io.ReadCloser
}

// Read implements io.Reader.
func (r *reading) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.ReadCloser.Read(p)
}

// ReadAt implements io.ReaderAt for regular files.
func (r *reading) ReadAt(p []byte, offset int64) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	file, ok := r.ReadCloser.(*os.File)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return file.ReadAt(p, offset)
}

// Size returns the size of the file. 0: it is not a regular file.
func (r *reading) Size() int64 {
	if file, ok := r.ReadCloser.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return info.Size()
		}
	}
	return 0
}
