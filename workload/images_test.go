package workload

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"slices"
	"strings"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// withImages returns a workload of 6 tokens and images.
func withImages(i *spatev1.Images) *spatev1.Workload {
	return &spatev1.Workload{Content: &spatev1.Workload_Random{
		Random: &spatev1.RandomContent{Isl: 6, Osl: 2, Images: i}}}
}

// imagesOf returns the text and the URLs of the images of a request.
func imagesOf(t *testing.T, w Workload, index uint64) (text string, urls []string) {
	t.Helper()
	prompt, err := w.AppendPrompt(nil, Request{Index: index, Form: Messages})
	if err != nil {
		t.Fatal(err)
	}
	var messages []struct {
		Role    string
		Content []struct {
			Type, Text string
			Image      struct{ URL string } `json:"image_url"`
		}
	}
	if err := json.Unmarshal(prompt, &messages); err != nil || len(messages) != 1 || messages[0].Role != "user" {
		t.Fatalf("%.100s: %v", prompt, err)
	}
	for i, part := range messages[0].Content {
		switch part.Type {
		case "text":
			text += part.Text
		case "image_url":
			urls = append(urls, part.Image.URL)
		default:
			t.Errorf("part %d is of type %q", i, part.Type)
		}
	}
	return text, urls
}

// TestImages: each request has its images in size and number besides text of exact length, and the same on all agents.
func TestImages(t *testing.T) {
	for _, format := range []string{"png", "jpeg"} {
		plan := withImages(&spatev1.Images{Count: 2, Width: 40, Height: 25, Format: format, Distinct: 3})
		w := newWorkload(t, Config{Workload: plan, Form: Messages, Seed: 7})
		other := newWorkload(t, Config{Workload: plan, Form: Messages, Seed: 7})
		seen := map[string]int{}
		for i := range uint64(3) {
			text, urls := imagesOf(t, w, i)
			if len(strings.Fields(text)) != 6 || len(urls) != 2 {
				t.Errorf("%s: %q and %d images", format, text, len(urls))
			}
			if _, again := imagesOf(t, other, i); !slices.Equal(urls, again) {
				t.Errorf("%s: request %d differs between agents", format, i)
			}
			for _, url := range urls {
				seen[url]++
				encoded, found := strings.CutPrefix(url, "data:image/"+format+";base64,")
				data, err := base64.StdEncoding.DecodeString(encoded)
				if err != nil || !found {
					t.Fatalf("%.60s: %v", url, err)
				}
				picture, kind, err := image.Decode(bytes.NewReader(data))
				if err != nil || kind != format || picture.Bounds() != image.Rect(0, 0, 40, 25) {
					t.Errorf("%s: %s (%v)", format, kind, err)
				}
			}
		}
		if len(seen) != 3 || slices.ContainsFunc(imageCounts(seen), func(n int) bool { return n != 2 }) {
			t.Errorf("%s: %d different images, used %v times", format, len(seen), imageCounts(seen))
		}
		if s, err := w.Spec(0, 0); s.ISL != 0 || s.OSL != 2 || err != nil {
			t.Errorf("%+v (%v): the length with images is not known", s, err)
		}
		if n, known := LongestRequest(plan, nil); known {
			t.Errorf("the longest request has %d tokens", n)
		}
	}
}

// imageCounts returns how often each image was used.
func imageCounts(seen map[string]int) (counts []int) {
	for _, n := range seen {
		counts = append(counts, n)
	}
	return counts
}

// TestImageURLs: images may be named by URL.
func TestImageURLs(t *testing.T) {
	plan := withImages(&spatev1.Images{Urls: []string{"https://h/a.png?x=1&y=\"2\"", "http://h/b.jpg"}})
	w := newWorkload(t, Config{Workload: plan, Form: Messages})
	for i := range uint64(3) {
		want := plan.GetRandom().GetImages().GetUrls()[i%2]
		if _, urls := imagesOf(t, w, i); !slices.Equal(urls, []string{want}) {
			t.Errorf("request %d has %q, want %q", i, urls, want)
		}
	}
	if _, err := New(Config{Workload: plan, Form: Text}); err == nil || !strings.Contains(err.Error(), "chat API") {
		t.Errorf("images as text: %v", err)
	}
}

// TestImagesAndStarts: the unique start and the prefix of a text stay as they are without images.
func TestImagesAndStarts(t *testing.T) {
	plan := withImages(&spatev1.Images{Width: 16, Height: 16, Distinct: 1})
	plan.GetRandom().Prefix = &spatev1.Prefix{Length: 4}
	w := newWorkload(t, Config{Workload: plan, Form: Messages})
	first, _ := imagesOf(t, w, 0)
	second, _ := imagesOf(t, w, 1)
	a, b := strings.Fields(first), strings.Fields(second)
	if !slices.Equal(a[:4], b[:4]) || slices.Equal(a, b) {
		t.Errorf("%q and %q share another prefix than 4 words", first, second)
	}
}
