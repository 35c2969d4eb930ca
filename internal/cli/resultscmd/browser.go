package resultscmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// browsers are the programs that can draw PDF and PNG, in the order in which they are looked for.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "microsoft-edge", "chrome", "msedge",
	"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"}

// size matches the width and height of a chart; a whole page has none.
var size = regexp.MustCompile(`^<svg [^>]* width="([0-9.]+)px" height="([0-9.]+)px"`)

// drawn returns a figure as PDF or PNG, drawn by a browser. Of a whole page it draws the card.
func (f *figureFlags) drawn(ctx context.Context, figure []byte) (_ []byte, err error) {
	browser := f.Browser
	for _, name := range browsers {
		if browser == "" {
			browser, _ = exec.LookPath(name) // empty if it fails
		}
	}
	if browser == "" {
		return nil, fmt.Errorf("--format %s is drawn by Chromium, Chrome or Edge, and none is found: install one, name its "+
			"program with --browser, or use --format svg", f.Format)
	}
	fragment, window, scale := "#card", "1200,630", "1"
	if of := size.FindSubmatch(figure); of != nil {
		fragment, window, scale = "", fmt.Sprintf("%s,%s", of[1], of[2]), "3"
		figure = fmt.Appendf(nil, "<!DOCTYPE html><meta charset=utf-8><style>@page{size:%spx %spx;margin:0}body{margin:0}"+
			"svg{display:block}</style>%s", of[1], of[2], figure)
	}
	dir, err := os.MkdirTemp("", "spate-figure-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	from, to := filepath.Join(dir, "figure.html"), filepath.Join(dir, "figure."+f.Format)
	if err := os.WriteFile(from, figure, 0o600); err != nil {
		return nil, err
	}
	args := []string{"--headless", "--user-data-dir=" + dir, "--hide-scrollbars", "--window-size=" + window,
		"--force-device-scale-factor=" + scale, "--no-pdf-header-footer",
		map[string]string{"pdf": "--print-to-pdf=", "png": "--screenshot="}[f.Format] + to,
		"file://" + filepath.ToSlash(from) + fragment}
	if os.Geteuid() == 0 { // for whom it has no sandbox; the page is ours, and asks for nothing
		args = append([]string{"--no-sandbox"}, args...)
	}
	said, err := exec.CommandContext(ctx, browser, args...).CombinedOutput()
	out, unwritten := os.ReadFile(to)
	if unwritten != nil {
		return nil, fmt.Errorf("%s drew no %s: %w: %.500s", browser, f.Format, errors.Join(err, unwritten), said)
	}
	return out, nil
}
