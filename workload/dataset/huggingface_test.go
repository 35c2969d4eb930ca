package dataset

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/rows"
)

// TestFilesIn: the front matter of README.md, else the names of files and folders tell subsets and splits.
func TestFilesIn(t *testing.T) {
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
		got, err := FilesIn(folder, &spatev1.FileContent{Subset: c.subset, Split: c.split})
		if want, wrong := strings.CutPrefix(c.want, "!"); wrong {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v (%v), want %s", c.files, got, err, want)
			}
		} else if err != nil || !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %v (%v), want %s", c.files, got, err, want)
		}
	}
}

// sized is a file in memory.
type sized struct{ *bytes.Reader }

// Close closes nothing.
func (sized) Close() error { return nil }

// inputsOf returns the files of a split of the fixture, which pyarrow wrote.
func inputsOf(t *testing.T, split string) []Input {
	t.Helper()
	root := filepath.Join("testdata", "huggingface")
	names, err := FilesIn(os.DirFS(root), &spatev1.FileContent{Subset: "main", Split: split})
	if err != nil {
		t.Fatal(err)
	}
	inputs := make([]Input, len(names))
	for i, name := range names {
		inputs[i] = Input{Name: name, Open: func() (io.ReadCloser, error) {
			text, err := os.ReadFile(filepath.Join(root, name))
			return sized{bytes.NewReader(text)}, err
		}}
	}
	return inputs
}

// buildInputs builds several files.
func buildInputs(t *testing.T, w *spatev1.Workload, inputs []Input) (*Skipped, []rows.Row, error) {
	t.Helper()
	src, err := inputs[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	_, skipped, err := Build(t.Context(), &out, src, w, Options{Name: inputs[0].Name, More: inputs[1:], Count: words})
	if err != nil {
		return skipped, nil, err
	}
	file, err := rows.New(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return skipped, rowsOf(t, file), nil
}

// TestParquet: the rows of all files of a split, and a faulty one with its file.
func TestParquet(t *testing.T) {
	share := 0.5
	w := fileOf(&spatev1.FileContent{MaxSkipped: &share, Columns: &spatev1.Columns{Prompt: "question", Answer: "answer"}})
	skipped, got, err := buildInputs(t, w, inputsOf(t, "train"))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, []rows.Row{textRow("Why, and how?", 3, 2), textRow(`Two\nlines <b>`, 3, 1), textRow("Third?", 1, 3)})
	if text := skipped.String(); text != "main/train-00001-of-00002.parquet: row 2 question is null, not a string" {
		t.Error(text)
	}
	w = fileOf(&spatev1.FileContent{Columns: &spatev1.Columns{Messages: "messages", Osl: "n"}})
	if _, got, err = buildInputs(t, w, inputsOf(t, "test")); err != nil || len(got) != 1 || got[0].OSL != 7 ||
		string(got[0].Content) != `[{"content":"Hello","role":"user"}]` {
		t.Errorf("%+v (%v)", got, err)
	}
}

// TestDamagedParquet: a file that is cut or changed gives an error or faulty rows, never a panic.
func TestDamagedParquet(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join("testdata", "huggingface", "main", "train-00000-of-00002.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	w := fileOf(&spatev1.FileContent{Columns: &spatev1.Columns{Prompt: "question"}})
	build := func(text []byte) error {
		_, _, err := Build(t.Context(), io.Discard, sized{bytes.NewReader(text)}, w, Options{Name: "in"})
		return err
	}
	for n := 4; n < len(whole); n += 7 {
		if build(whole[:n]) == nil {
			t.Errorf("%d of %d bytes are accepted", n, len(whole))
		}
	}
	for i := range whole {
		changed := bytes.Clone(whole)
		changed[i] ^= 0xff
		_ = build(changed) // a change may leave the file valid
	}
	for _, src := range []io.Reader{strings.NewReader("PAR1"), io.MultiReader(bytes.NewReader(whole))} {
		if _, _, err := Build(t.Context(), io.Discard, src, w, Options{Name: "in"}); err == nil {
			t.Error("accepted")
		}
	}
	_, _, err = Build(t.Context(), io.Discard, sized{bytes.NewReader(whole)}, w, Options{Name: "in", MaxBytes: 60})
	if err == nil || !strings.Contains(err.Error(), "more than 60 bytes of text") {
		t.Errorf("too much text: %v", err)
	}
}
