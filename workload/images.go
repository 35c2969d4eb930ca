package workload

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
)

// images are the images of requests as parts of a message's content, encoded once. Image j of request i is number
// i x count + j of the parts, around and around, so that an image is sent again as late as possible.
type images struct {
	count uint64
	parts [][]byte
}

// newImages encodes all different images. Nil: requests have none. It takes some 10 ms a megapixel.
func newImages(i *spatev1.Images, c Config) (*images, error) {
	if i == nil {
		return nil, nil //nolint:nilnil // no images are no error
	}
	if c.Form != Messages {
		return nil, errors.New("workload: images can only be sent to a chat API: set the target's `api: chat`")
	}
	all := &images{count: max(1, uint64(i.GetCount()))}
	for _, url := range i.GetUrls() {
		if err := all.add(url); err != nil {
			return nil, err
		}
	}
	if len(all.parts) > 0 {
		return all, nil
	}
	for k := range max(1, uint64(i.GetDistinct())) {
		colours := draw.New(c.Seed, "images").Sub(k)
		url, err := dataURL(picture(colours, int(i.GetWidth()), int(i.GetHeight())), i.GetFormat())
		if err != nil {
			return nil, err
		}
		if err := all.add(url); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// add adds a part of a message's content, in OpenAI's form.
func (s *images) add(url string) error {
	quoted, err := json.Marshal(url)
	if err != nil {
		return fmt.Errorf("workload: the URL of an image: %w", err)
	}
	s.parts = append(s.parts, fmt.Appendf(nil, `{"type":"image_url","image_url":{"url":%s}}`, quoted))
	return nil
}

// of calls yield with each image of a request.
func (s *images) of(index uint64, yield func(part []byte)) {
	for j := range s.count {
		yield(s.parts[(index*s.count+j)%uint64(len(s.parts))])
	}
}

// square is the side of the squares of one colour that pictures are made of, in pixels. One colour a pixel would be
// noise, which no encoding makes smaller.
const square = 16

// picture makes a picture of squares of random colours.
func picture(colours draw.Sequence, width, height int) image.Image {
	p := image.NewRGBA(image.Rect(0, 0, width, height))
	across := uint64(width+square-1) / square
	for y := range height {
		for x := range width {
			rgb := colours.At(uint64(y/square)*across + uint64(x/square))
			p.SetRGBA(x, y, color.RGBA{R: uint8(rgb >> 16), G: uint8(rgb >> 8), B: uint8(rgb), A: 0xff})
		}
	}
	return p
}

// dataURL encodes a picture.
func dataURL(p image.Image, format string) (string, error) {
	var encoded bytes.Buffer
	var err error
	if format == "jpeg" {
		err = jpeg.Encode(&encoded, p, nil)
	} else {
		format = "png"
		err = (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&encoded, p)
	}
	if err != nil {
		return "", fmt.Errorf("workload: an image: %w", err)
	}
	return "data:image/" + format + ";base64," + base64.StdEncoding.EncodeToString(encoded.Bytes()), nil
}
