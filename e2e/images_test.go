package e2e

import (
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
)

const imagesPlan = `
name: images
targets: [{name: t, simulator: {decode_step: 1ms}}]
workloads:
  - {name: folder, random: {isl: 20, osl: 3, images: {count: 2, path: pictures}}}
  - {name: one, random: {isl: 20, osl: 3, images: {path: pictures/b.jpg}}}
  - {name: listed, random: {isl: 20, osl: 3, images: {count: 3, path: list.txt}}}
  - {name: text, random: {isl: 20, osl: 3}}
loads: [{concurrency: [2], requests: 10}]
`

// planWith writes a plan, and a folder with two pictures of 4 and 8 tokens beside it. It returns the paths of both.
func planWith(t *testing.T) (plan, folder string) {
	t.Helper()
	dir := t.TempDir()
	plan, folder = filepath.Join(dir, "plan.yaml"), filepath.Join(dir, "pictures")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plan, []byte(imagesPlan), 0o600); err != nil {
		t.Fatal(err)
	}
	list := "pictures/b.jpg\n\n" + folder + "/a.png\r\npictures/b.jpg"
	if err := os.WriteFile(filepath.Join(dir, "list.txt"), []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := os.Create(filepath.Join(folder, "a.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := os.Create(filepath.Join(folder, "b.jpg"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := png.Encode(a, image.NewGray(image.Rect(0, 0, 56, 56))); err != nil {
		t.Fatal(err)
	}
	if err := jpeg.Encode(b, image.NewGray(image.Rect(0, 0, 56, 112)), nil); err != nil {
		t.Fatal(err)
	}
	return plan, folder
}

// Images of a folder are sent in turn, and what they cost in prompt tokens is told by the server's usage.
func TestImagesFromFiles(t *testing.T) {
	t.Parallel()
	plan, _ := planWith(t)
	r := programs.Run(t, plan, "--agents", "2")
	r.MustExit(0)
	rows := r.Rows()
	want := map[string]struct {
		count  uint64
		each   float64
		tokens uint64 // prompt tokens of each request
	}{"folder": {20, 6, 32}, "one": {10, 8, 28}, "listed": {30, 20.0 / 3, 40}, "text": {0, 0, 20}}
	for _, s := range r.Results().Stages {
		w := want[s.Workload]
		if i := s.Images; (i == nil) != (w.count == 0) || i != nil && (i.Count != w.count || i.TokensEach != w.each) {
			t.Errorf("%s: %+v, want %+v", s.Workload, s.Images, w)
		}
		for _, q := range rows[s.Index] {
			if q.InputTokens == nil || *q.InputTokens != w.tokens {
				t.Errorf("%s: request %d has %v prompt tokens, want %d", s.Workload, q.Index, q.InputTokens, w.tokens)
			}
		}
	}
	if report := r.Text("report.md"); !strings.Contains(report, "Tokens of an image") {
		t.Error("the report does not say what images cost")
	}
}

// A file that is not an image is named, with the position of the path in the plan, and nothing starts.
func TestFilesThatAreNotImages(t *testing.T) {
	t.Parallel()
	plan, folder := planWith(t)
	if err := os.WriteFile(filepath.Join(folder, "c.txt"), []byte("words"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	for says, set := range map[string]string{
		"plan.yaml:5:71: workloads[0].random.images.path: " + folder + "/c.txt: is not an image: its content is text/plain": "seed=1",
		"pictures/c.txt:1: " + folder + "/words: no such file":                                                              "workloads.one.random.images.path=pictures/c.txt",
		empty + ": the folder has no files":                                                                                 "workloads.one.random.images.path=" + empty,
		"none: no such file or directory":                                                                                   "workloads.one.random.images.path=none",
		"give urls or path, not both":                                                                                       `workloads.one.random.images.urls=["https://host/a.png"]`,
		"workloads[1].random.images.width: does not work with path: it is for images that are made":                         "workloads.one.random.images.width=8",
	} {
		r := programs.Run(t, plan, "--set", set)
		if code := r.Exit(); code != 2 || !strings.Contains(r.Stderr.String(), says) {
			t.Errorf("exit %d, want 2 and %s: %s", code, says, r.Stderr.String())
		}
	}
}
