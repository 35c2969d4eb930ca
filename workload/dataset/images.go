package dataset

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/rows"
)

// Limits of images from files, in bytes. Agents hold all of them in memory, encoded.
const (
	maxImage  = 16 << 20
	maxImages = 256 << 20
)

// BuildImages writes a rows file with the images of a workload to dst: a row for each file, with the image as a data
// URL, and for each input without Open, whose name is a URL. The files must be PNG, JPEG, GIF or WebP. The error names
// the file that cannot be used. After an error, what was written to dst is useless.
func BuildImages(ctx context.Context, dst io.Writer, w *spatev1.Workload, files []Input) (*spatev1.Dataset, error) {
	form, _ := content.Of(w)
	out, err := rows.NewWriter(dst, rows.Header{Form: form, RecordSize: rows.LongRecord})
	if err != nil {
		return nil, err
	}
	total := 0
	for _, f := range files {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		url, err := readImage(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		if total += len(url); total > maxImages {
			return nil, fmt.Errorf("%s: the images have more than %d MiB together: use fewer, or smaller ones", f.Name,
				maxImages>>20)
		}
		if err := out.Add(&rows.Row{Kind: rows.Text, Content: []byte(url), OSL: 1, TurnCount: 1}); err != nil {
			return nil, err
		}
	}
	sha, size, err := out.Close(0)
	if err != nil {
		return nil, err
	}
	return &spatev1.Dataset{Sha256: sha, Size: size, Rows: out.Len()}, nil
}

// readImage reads a file as a data URL, or returns a URL as it is.
func readImage(f Input) (string, error) {
	if f.Open == nil {
		return f.Name, nil
	}
	src, err := f.Open()
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(src, maxImage+1))
	if err := errors.Join(err, src.Close()); err != nil {
		return "", err
	}
	kind := http.DetectContentType(data)
	switch {
	case len(data) > maxImage:
		return "", fmt.Errorf("is larger than %d MiB", maxImage>>20)
	case !strings.HasPrefix(kind, "image/"):
		return "", fmt.Errorf("is not an image: its content is %s", kind)
	}
	return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data), nil
}
