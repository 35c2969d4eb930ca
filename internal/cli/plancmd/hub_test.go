package plancmd

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hub is a server with one dataset, which only those with a token may read.
func hub(t *testing.T) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer hf_x":
			http.Error(w, "", http.StatusUnauthorized)
		case r.URL.Path == "/api/datasets/org/chats":
			_, _ = io.WriteString(w, `{"siblings": [{"rfilename": "README.md"}, {"rfilename": "train.parquet"}, {"rfilename": "test.csv"}]}`)
		case r.URL.Path == "/api/datasets/org/many":
			_, _ = io.WriteString(w, `{"siblings": [{"rfilename": "a.json"}, {"rfilename": "b.json.gz"}]}`)
		case r.URL.Path != "/datasets/org/chats/resolve/main/a b/train.jsonl" &&
			r.URL.Path != "/datasets/org/chats/resolve/main/train.parquet":
			http.NotFound(w, r)
		default:
			_, _ = io.WriteString(w, `{"prompt": "Why?"}`)
		}
	}))
	t.Cleanup(s.Close)
	t.Setenv("HF_ENDPOINT", s.URL+"/")
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("HF_HUB_CACHE", "")
	t.Setenv("HF_TOKEN", "hf_x")
}

// A file of a dataset is asked of the Hub, by the token of the environment. Parquet can be read at any place.
func TestFilesOfTheHub(t *testing.T) {
	hub(t)
	for name, want := range map[string]string{
		"hf://org/chats/a b/train.jsonl": "", "hf://org/chats/train.parquet": "",
		"hf://org/chats/other.jsonl": "404 Not Found",
		"hf://org/chats":             "",
		"hf://org/many": "org/many has 2 files of rows: name one, hf://org/many/FILE, or run hf download " +
			"--repo-type dataset org/many: a.json, b.json.gz",
		"hf://org/gone": "404 Not Found",
	} {
		src, err := openFile(t.Context(), local(name))
		if err != nil {
			if want == "" || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
			continue
		}
		text, err := io.ReadAll(src)
		if string(text) != `{"prompt": "Why?"}` || err != nil || want != "" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		_, random := src.(io.ReaderAt)
		if err := src.Close(); err != nil || random != (strings.HasSuffix(name, "parquet") || name == "hf://org/chats") {
			t.Errorf("%s: read at any place %v, %v", name, random, err)
		}
	}
	t.Setenv("HF_TOKEN", "")
	if _, err := openFile(t.Context(), "hf://org/chats/train.parquet"); err == nil ||
		!strings.Contains(err.Error(), "401 Unauthorized: see its name, and HF_TOKEN") {
		t.Error(err)
	}
}

// What the Hub's cache has is read there: a file, or the dataset's folder.
func TestCacheOfTheHub(t *testing.T) {
	hub(t)
	root := filepath.Join(os.Getenv("HF_HOME"), "hub", "datasets--org--chats")
	snapshot := filepath.Join(root, "snapshots", "0123")
	for path, text := range map[string]string{
		filepath.Join(root, "refs", "main"): "0123\n", filepath.Join(snapshot, "data", "train.jsonl"): "{}",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"hf://org/chats": snapshot, "hf://org/chats/data/train.jsonl": filepath.Join(snapshot, "data", "train.jsonl"),
		"hf://org/chats/gone.jsonl": "hf://org/chats/gone.jsonl", "hf://org/other": "hf://org/other", "a.jsonl": "a.jsonl",
	} {
		if got := local(name); got != want {
			t.Errorf("%s is read at %s", name, got)
		}
	}
}

// What a Hub sends is bounded, and nothing of more is kept.
func TestHubsAreBounded(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	if f, err := keep(strings.NewReader("1234"), 4); err != nil || f.Close() != nil {
		t.Error(err)
	}
	if _, err := keep(strings.NewReader("12345"), 4); err == nil || !strings.Contains(err.Error(), "more than 4 bytes") {
		t.Error(err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
