package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
	"pgregory.net/rapid"
)

// TestElementsOracle splits arrays as encoding/json would.
func TestElementsOracle(t *testing.T) {
	values := rapid.SliceOf(rapid.SampledFrom([]string{`1`, `"a,]}\\\""`, `{"a": [1, {"b": "]"}]}`, `[]`, `[[], {}]`,
		`null`, `"\\"`, `{"}": "{"}`}))
	spaces := rapid.SampledFrom([]string{"", " ", "\n\t "})
	rapid.Check(t, func(t *rapid.T) {
		list := values.Draw(t, "values")
		text := spaces.Draw(t, "before") + "["
		for i, v := range list {
			if i > 0 {
				text += ","
			}
			text += spaces.Draw(t, "left") + v + spaces.Draw(t, "right")
		}
		s, err := openSource(t.Context(), strings.NewReader(text+"]"+spaces.Draw(t, "behind")), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		got, err := newElements(s.Reader)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range list {
			it, err := got.Next()
			if err != nil || string(it.Text) != v || it.Number != uint64(i+1) {
				t.Fatalf("element %d is %q (%v), want %q", it.Number, it.Text, err, v)
			}
		}
		if it, err := got.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("after the last there is %q (%v)", it.Text, err)
		}
	})
}

// A column that claims more values, or more text, than its bytes may have is refused before any of it is read.
func TestColumnsOfManyValues(t *testing.T) {
	of := func(values, size, text int64) error {
		m := format.ColumnMetaData{PathInSchema: []string{"tags", "element"}, NumValues: values,
			TotalCompressedSize: size, TotalUncompressedSize: text}
		group := format.RowGroup{Columns: []format.ColumnChunk{{MetaData: m}}}
		return checkColumns(&format.FileMetaData{RowGroups: []format.RowGroup{group}},
			room{limit: 1 << 30, packed: func() uint64 { return uint64(size) }})
	}
	for _, c := range []struct {
		values, size, text int64
		ok                 bool
	}{
		{1 << 20, 20, 0, true}, {17 << 20, 20, 0, false}, {17 << 20, 1 << 20, 0, true}, {1 << 40, 1 << 30, 0, false},
		{1, 20, 16 << 20, true}, {1, 20, 17 << 20, false}, {1, 1 << 20, 100 << 20, true},
		{1, 1 << 20, 102 << 20, false},
	} {
		if err := of(c.values, c.size, c.text); (err == nil) != c.ok {
			t.Errorf("%d values of %d bytes in %d bytes: %v", c.values, c.text, c.size, err)
		}
	}
}

// A small Parquet file whose dictionary makes it huge, by many rows or by one, ends with an error, within memory.
func TestParquetBombs(t *testing.T) {
	type row struct {
		Prompt string   `parquet:"prompt,dict"`
		Tags   []string `parquet:"tags,list,dict"`
	}
	long := strings.Repeat("word ", 2_000)
	for _, c := range []struct {
		rows, tags int
		says       string
	}{
		{2_000, 0, "uncompress to 16.0 MiB, more than 100 times as much, as in a decompression bomb"},
		{1, 20_000, "uncompress to 190.8 MiB, more than 100 times as much"},
	} {
		var file bytes.Buffer
		w := parquet.NewGenericWriter[row](&file)
		for range c.rows {
			if _, err := w.Write([]row{{long, slices.Repeat([]string{long}, c.tags)}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil || file.Len() > 1<<18 {
			t.Fatal(file.Len(), err)
		}
		all, err := newParquetRows(bytes.NewReader(file.Bytes()), 1<<36)
		for err == nil {
			_, err = all.Next()
		}
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("error %v, want %q", err, c.says)
		}
	}
}

// Values are found however deep they nest, as far as encoding/json accepts them.
func TestValuesOfAnyDepth(t *testing.T) {
	deep := strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000)
	list := []byte(" [" + deep + `, {"a\n": ` + deep + `, "b" : 1} ]`)
	if !json.Valid(list) {
		t.Fatal("the list is not valid")
	}
	var lengths []int
	for value := range values(list) {
		lengths = append(lengths, len(value))
		if value[0] == '{' {
			for name, value := range members(value) {
				lengths = append(lengths, len(name), len(value))
			}
		}
	}
	want := []int{len(deep), len(deep) + len(`{"a\n": , "b" : 1}`), len(`a\n`), len(deep), 1, 1}
	if !slices.Equal(lengths, want) {
		t.Errorf("lengths %v, want %v", lengths, want)
	}
}
