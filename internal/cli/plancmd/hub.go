package plancmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spate-load/spate/plans"
)

// hubName is a dataset on Hugging Face's Hub: hf://ORG/NAME for what the Hub's cache has of it, with /PATH for a file.
type hubName struct {
	dataset string // ORG/NAME
	path    string // may be empty
}

// hubNameOf splits the path of a plan's file. hub is false if it does not name a dataset on the Hub.
func hubNameOf(path string) (n hubName, hub bool) {
	rest, hub := strings.CutPrefix(path, plans.HubPrefix)
	parts := strings.SplitN(rest, "/", 3)
	n.dataset = strings.Join(parts[:min(len(parts), 2)], "/")
	if len(parts) > 2 {
		n.path = parts[2]
	}
	return n, hub
}

// cached returns where the Hub's cache has the dataset, or its file. Empty: nowhere.
func (n hubName) cached() string {
	home, _ := os.UserHomeDir() // without one there is no cache
	root := cmp.Or(os.Getenv("HF_HUB_CACHE"),
		filepath.Join(cmp.Or(os.Getenv("HF_HOME"), filepath.Join(home, ".cache", "huggingface")), "hub"))
	dir := filepath.Join(root, "datasets--"+strings.ReplaceAll(n.dataset, "/", "--"))
	revision, err := os.ReadFile(filepath.Join(dir, "refs", "main"))
	if err != nil {
		return ""
	}
	found := filepath.Join(dir, "snapshots", strings.TrimSpace(string(revision)), filepath.FromSlash(n.path))
	if _, err := os.Stat(found); err != nil {
		return ""
	}
	return found
}

// local returns the path of a plan's file. A dataset on the Hub that is in the Hub's cache is read there.
func local(path string) string {
	if n, hub := hubNameOf(path); hub {
		return cmp.Or(n.cached(), path)
	}
	return path
}

// open asks the Hub for the file. Parquet, which is not read as a stream, is kept in a temporary file while it is read.
// The caller closes what open returns.
func (n hubName) open(ctx context.Context) (io.ReadCloser, error) {
	if n.path == "" {
		return nil, fmt.Errorf("%s is not in the Hub's cache: name one of its files, hf://%s/PATH, or run hf download "+
			"--repo-type dataset %s", n.dataset, n.dataset, n.dataset)
	}
	file := (&url.URL{Path: n.dataset + "/resolve/main/" + n.path}).EscapedPath()
	at := strings.TrimSuffix(cmp.Or(os.Getenv("HF_ENDPOINT"), "https://huggingface.co"), "/") + "/datasets/" + file
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	if token := os.Getenv("HF_TOKEN"); token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	switch r.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		err = fmt.Errorf("%s answers %s: set HF_TOKEN to a token that may read it", at, r.Status)
	default:
		err = fmt.Errorf("%s answers %s", at, r.Status)
	}
	if err == nil && strings.EqualFold(filepath.Ext(n.path), ".parquet") {
		kept, err := keep(r.Body)
		return kept, errors.Join(err, r.Body.Close())
	}
	if err != nil {
		return nil, errors.Join(err, r.Body.Close())
	}
	return r.Body, nil
}

// keep copies a stream into a temporary file without a name. The caller closes it.
func keep(src io.Reader) (*os.File, error) {
	f, err := os.CreateTemp("", "spate-dataset-*")
	if err != nil {
		return nil, err
	}
	if err = os.Remove(f.Name()); err == nil {
		_, err = io.Copy(f, src)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
