package dataset

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// TestFiles: the front matter of README.md, else the names of files and folders tell subsets and splits.
func TestFiles(t *testing.T) {
	card := func(front string) string { return "README.md=---\n" + front + "\n---\n# Card\n" }
	for _, c := range []struct{ files, subset, split, want string }{
		{"train.csv test.csv .git/train.csv notes.md", "", "train", "train.csv"},
		{"data.jsonl", "", "", "data.jsonl"},
		{"data/my-dev.json data/eval1.json.gz", "", "validation", "data/my-dev.json"},
		{"data/train/a.parquet data/train/b.parquet data/test/c.parquet", "", "train", "data/train/a.parquet data/train/b.parquet"},
		{"data/words-00000-of-00002.parquet data/words-00001-of-00002.parquet", "", "words",
			"data/words-00000-of-00002.parquet data/words-00001-of-00002.parquet"},
		{"testfile.csv trained.csv", "", "train", "testfile.csv trained.csv"},
		{"en/train.csv fr/train.csv", "fr", "", "fr/train.csv"},
		{"train.csv test.csv", "", "", "!it has several splits: give split, one of test, train"},
		{"train.csv test.csv", "", "dev", `!it has no split "dev", only: test, train`},
		{"en/train.csv", "de", "", "!it has no files of rows in the folder de"},
		{"notes.md", "", "", "!the folder has no file of rows"},
		{"a.csv b.csv sub/c.csv " + card("configs:\n- config_name: x\n  data_files: '*.csv'"), "", "", "a.csv b.csv"},
		{"a.csv sub/c.csv " + card("configs:\n- config_name: x\n  data_files: ['a.csv', '**/c.csv']"), "", "", "a.csv sub/c.csv"},
		{"d/a.csv d/b.csv " + card("configs:\n- config_name: x\n  data_dir: d\n  data_files: [{split: hold, path: a.csv}]"), "x",
			"", "d/a.csv"},
		{"d/train.csv e/train.csv " + card("configs:\n- config_name: x\n  data_dir: d\n- config_name: default\n  data_dir: e"), "",
			"", "e/train.csv"},
		{"a.csv " + card("configs:\n- config_name: x\n- config_name: y"), "", "",
			"!it has several subsets: give subset, one of x, y"},
		{"a.csv " + card("configs:\n- config_name: x\n  data_files: none.csv"), "", "", "!it has no file of the split train"},
		{"a.csv " + card("configs: {"), "", "", "!README.md: its front matter"},
	} {
		folder := fstest.MapFS{}
		files, readme, has := strings.Cut(c.files, "README.md=")
		if has {
			folder["README.md"] = &fstest.MapFile{Data: []byte(readme)}
		}
		for name := range strings.FieldsSeq(files) {
			folder[name] = &fstest.MapFile{}
		}
		got, err := HuggingFaceFiles(folder, &spatev1.FileContent{Subset: c.subset, Split: c.split})
		if want, wrong := strings.CutPrefix(c.want, "!"); wrong {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v (%v), want %s", c.files, got, err, want)
			}
		} else if err != nil || !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %v (%v), want %s", c.files, got, err, want)
		}
	}
}

// Close closes nothing.
