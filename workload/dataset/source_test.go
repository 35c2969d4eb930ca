package dataset

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// gzipped and zstded compress a text.
func gzipped(text string) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return out.String()
}

func zstded(text string) string {
	w, _ := zstd.NewWriter(nil)
	defer w.Close()
	return string(w.EncodeAll([]byte(text), nil))
}

// TestSameSourceSameRows: compression, byte order mark, line ends and a missing last line end change nothing.
func TestSameSourceSameRows(t *testing.T) {
	text := file(t, mooncakeTrace)
	w := mooncakeOf(&spatev1.TraceContent{})
	want, _, _ := built(t, w, text, Options{})
	for name, source := range map[string]string{
		"again": text, "gzip": gzipped(text), "zstd": zstded(text), "two members": gzipped(text[:5000]) +
			gzipped(text[5000:]),
		"mark": "\ufeff" + text, "mark in gzip": gzipped("\ufeff" + text),
		"CRLF":        strings.ReplaceAll(text, "\n", "\r\n"),
		"no last end": strings.TrimSuffix(text, "\n"), "array": "[" + strings.ReplaceAll(strings.TrimSpace(text), "\n",
			" ,\n") + "]\n",
	} {
		if got, _, _ := built(t, w, source, Options{}); got.GetSha256() != want.GetSha256() {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	text := file(t, mooncakeTrace)
	forms := all()
	for name, c := range map[string]struct{ form, source, says string }{
		"empty":           {"mooncake", "", "empty"},
		"empty CSV":       {"azure", "", "empty"},
		"empty gzip":      {"jsonl", gzipped(""), "empty"},
		"mark alone":      {"jsonl", "\ufeff", "empty"},
		"empty array":     {"sharegpt", " [ ] ", "empty"},
		"header alone":    {"azure", "TIMESTAMP,ContextTokens,GeneratedTokens\n", "empty"},
		"cut gzip":        {"mooncake", gzipped(text)[:10_000], "may be incomplete"},
		"cut gzip header": {"mooncake", gzipped(text)[:5], "may be incomplete"},
		"cut zstd":        {"mooncake", zstded(text)[:10_000], "may be incomplete"},
		"damaged gzip":    {"mooncake", gzipped(text)[:10_000] + "x" + gzipped(text)[10_001:], ""},
		"cut array":       {"sharegpt", file(t, "sharegpt.json")[:300], "the array does not end"},
		"after the array": {"sharegpt", file(t, "sharegpt.json") + "{}", "follows the end of the array"},
		"UTF-16":          {"jsonl", "\xff\xfe{\x00", "UTF-8"},
		"binary":          {"jsonl", "\x00\x01\x02", "none of its 1 rows can be used: line 1 is not JSON"},
		"Arrow":           {"mooncake", "ARROW1\x00\x00\xff\xff\xff\xff", "an Arrow file, which Spate does not read"},
		"Arrow stream":    {"jsonl", "\xff\xff\xff\xff\x10", "write it as Parquet"},
		"nothing in it":   {"sonnet", "\n\n\n", "none of its 3 rows"},
	} {
		if got := refused(t, forms[c.form], c.source); !strings.Contains(got, c.says) {
			t.Errorf("%s: %s, want %q", name, got, c.says)
		}
	}
	if _, _, err := Build(t.Context(), io.Discard, strings.NewReader("x"), &spatev1.Workload{}, Options{}); err == nil {
		t.Error("a workload without file was built")
	}
}

// TestEnormousLine: a line or element beyond the limit is skipped and counted, and the rows after it are used.
func TestEnormousLine(t *testing.T) {
	huge := `{"prompt": "` + strings.Repeat("ab ", maxUsed/3) + `"}`
	for name, source := range map[string]string{
		"line":    `{"prompt": "x"}` + "\n" + huge + "\n" + `{"prompt": "y"}`,
		"last":    `{"prompt": "x"}` + "\n" + `{"prompt": "y"}` + "\n" + huge,
		"element": `[{"prompt": "x"}, ` + huge + `, {"prompt": "y"}]`,
	} {
		every := 1.0
		_, skipped, r := built(t, jsonlOf(&spatev1.FileContent{MaxSkipped: &every}), source, Options{})
		if r.Len() != 2 || skipped.Unusable != 1 || !strings.Contains(skipped.First[0].Reason, "longer than 32 MiB") {
			t.Errorf("%s: %d rows, skipped %+v", name, r.Len(), skipped)
		}
		if rows := rowsOf(t, r); string(rows[1].Content) != "y" {
			t.Errorf("%s: %+v", name, rows[1])
		}
	}
}

// endless is a source without end.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return copy(b, "{\"prompt\": \"x\"}\n"), nil }

func TestBuildStops(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, _, err := Build(ctx, io.Discard, endless{}, jsonlOf(&spatev1.FileContent{}), Options{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

// TestSourceFails: the reader's error is returned.
func TestSourceFails(t *testing.T) {
	broken := errors.New("broken cable")
	for form, w := range all() {
		source := io.MultiReader(strings.NewReader("[  {\"a\": 1}, "), failing{broken})
		if _, _, err := Build(t.Context(), io.Discard, source, w, Options{}); !errors.Is(err, broken) &&
			form != "burstgpt" && form != "azure" {
			t.Errorf("%s: %v", form, err)
		}
	}
}

type failing struct{ error }

func (e failing) Read([]byte) (int, error) { return 0, e.error }

// Each kind of content with a path in the plan has a source, with a description, and no other kind has one.
func TestEveryFileHasASource(t *testing.T) {
	named := map[string]Source{}
	for _, s := range Sources {
		named[s.Name] = s
	}
	fields := (&spatev1.Workload{}).ProtoReflect().Descriptor().Oneofs().ByName("content").Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		s, known := named[string(field.Name())]
		if hasFile := field.Message().Fields().ByName("path") != nil; known != hasFile {
			t.Errorf("%s has a file: %v, is a source: %v", field.Name(), hasFile, known)
		}
		if known && (s.Help == "" || s.Example == "") {
			t.Errorf("%s has no description", s.Name)
		}
	}
}
