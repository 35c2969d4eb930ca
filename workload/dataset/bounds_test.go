package dataset

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// repeating is a reader that repeats a text.
type repeating struct {
	text string
	at   int
	read uint64
}

func (e *repeating) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		m := copy(b[n:], e.text[e.at:])
		n, e.at = n+m, (e.at+m)%len(e.text)
	}
	e.read += uint64(n)
	return n, nil
}

// packed compresses size bytes of a text.
func packed(t *testing.T, text io.Reader, size int64, by func(io.Writer) io.WriteCloser) []byte {
	t.Helper()
	var out bytes.Buffer
	w := by(&out)
	if _, err := io.CopyN(w, text, size); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// An endless source and a decompression bomb end with an error, before they fill a disk.
func TestSourcesBeyondBounds(t *testing.T) {
	row := `{"prompt": "` + strings.Repeat("a", 5000) + `"}` + "\n"
	zeros := strings.Repeat("\x00", 1<<16)
	byGzip := func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
	byZstd := func(w io.Writer) io.WriteCloser {
		z, err := zstd.NewWriter(w)
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	jsonl := jsonlOf(&spatev1.FileContent{Osl: 5})
	for name, c := range map[string]struct {
		src  io.Reader
		most uint64
		says string
		rows int // maximum bytes of rows
	}{
		"endless rows": {&repeating{text: row}, 1 << 20, "more than 1.0 MiB of text", 2 << 20},
		"endless line": {&repeating{text: zeros}, 1 << 40, "line 1 is longer than 1024 MiB", 1 << 20},
		"endless element": {&repeating{text: strings.Repeat("[", 1<<16)}, 1 << 40,
			"element 1 is longer than 1024 MiB", 1 << 20},
		"endless spaces": {&repeating{text: strings.Repeat(" ", 1<<16)}, 1 << 21,
			"more than 2.0 MiB of text", 1 << 20},
		"gzip bomb": {bytes.NewReader(packed(t, &repeating{text: zeros}, 300<<20, byGzip)), 0,
			"decompression bomb", 1 << 20},
		"zstd bomb": {bytes.NewReader(packed(t, &repeating{text: zeros}, 300<<20, byZstd)), 0,
			"decompression bomb", 1 << 20},
		"gzip beyond bounds": {bytes.NewReader(packed(t, &repeating{text: row}, 3<<20, byGzip)), 1 << 20,
			"more than 1.0 MiB of text", 2 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "endless element" && raceDetector() {
				t.Skip("each of its 1024 MiB is looked at: minutes with the race detector")
			}
			written := new(counter)
			_, _, err := Build(t.Context(), written, c.src, jsonl, Options{MaxBytes: c.most})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %q", err, c.says)
			}
			if int(*written) > c.rows {
				t.Errorf("%d bytes of rows were written", *written)
			}
		})
	}
	small := packed(t, &repeating{text: row}, 100*int64(len(row)), byGzip) // the same compression ratio, but harmless
	if _, _, err := Build(t.Context(), io.Discard, bytes.NewReader(small), jsonl, Options{}); err != nil {
		t.Errorf("a small compressed file: %v", err)
	}
}

// counter counts the bytes written.
type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
