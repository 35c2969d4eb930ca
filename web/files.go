package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/compare/runfiles"
	"github.com/spate-load/spate/compare/show"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/report"
)

// reportFile is the page of an ended run.
const reportFile = "report.html"

// fileTypes are the files of a run, with their media types.
var fileTypes = []struct{ name, media string }{
	{results.File, "application/json"},
	{reportFile, "text/html; charset=utf-8"},
	{"report.md", "text/markdown; charset=utf-8"},
	{"vllm.txt", "text/plain; charset=utf-8"},
	{"plan.yaml", "application/yaml"},
	{"histograms.hlog", "text/plain; charset=utf-8"},
	{"requests.parquet", "application/vnd.apache.parquet"},
	{"requests.jsonl", "application/jsonl"},
	{ledger.File, "application/octet-stream"},
}

// fileInfo is a file in the list of a run's files. Bytes is 0 if it is made when it is first asked for.
type fileInfo struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

func (s *Server) listFiles(w http.ResponseWriter, r *http.Request) {
	dir, err := s.files(r.Context(), r.PathValue("id"))
	if err != nil {
		failed(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"files": filesIn(dir)}) // a viewer who has gone
}

// filesIn returns the files of a run that are there.
func filesIn(dir string) (list []fileInfo) {
	for _, t := range fileTypes {
		if info, err := os.Stat(filepath.Join(dir, t.name)); err == nil {
			list = append(list, fileInfo{t.name, info.Size()})
		}
	}
	return list
}

// resultIn returns the result of a run whose files are there. Nil: there is none.
func resultIn(dir string) *results.Result {
	content, err := os.ReadFile(filepath.Join(dir, results.File))
	r := &results.Result{}
	if err != nil || json.Unmarshal(content, r) != nil {
		return nil
	}
	return r
}

func (s *Server) getFile(w http.ResponseWriter, r *http.Request) {
	media := ""
	for _, t := range fileTypes {
		if t.name == r.PathValue("name") {
			media = t.media
		}
	}
	if media == "" {
		problem(w, http.StatusNotFound, fmt.Sprintf("runs have no file %.80q", r.PathValue("name")))
		return
	}
	dir, err := s.files(r.Context(), r.PathValue("id"))
	if err != nil {
		failed(w, err)
		return
	}
	s.serveFile(w, r, filepath.Join(dir, r.PathValue("name")), media)
}

// serveFile answers with a file of a run.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request, path, media string) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		problem(w, http.StatusNotFound, "the run has no file "+filepath.Base(path))
		return
	}
	if err != nil {
		s.log.Error("file of a run cannot be read", "error", err)
		problem(w, http.StatusInternalServerError, "the file cannot be read: the log says why")
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Security-Policy", reportPolicy)
	http.ServeContent(w, r, "", time.Time{}, f)
}

// files returns the directory of an ended run, with all its files. They are made if they are not there yet. Its error
// is a status.
func (s *Server) files(ctx context.Context, id string) (dir string, err error) {
	run, err := s.summary(ctx, id)
	if err != nil {
		return "", err
	}
	if st := run.GetState(); st == spatev1.RunState_RUN_STATE_WAITING ||
		st == spatev1.RunState_RUN_STATE_RUNNING {
		return "", status.Errorf(codes.FailedPrecondition, "run %s has not ended: it has no files yet", id)
	}
	dir = s.dir(id)
	if current(dir) {
		return dir, nil
	}
	if err := s.takeTurn(ctx); err != nil {
		return "", err
	}
	defer s.endTurn()
	if current(dir) { // made meanwhile
		return dir, nil
	}
	if _, err := report.Write(dir, report.Options{}); err != nil {
		s.log.Warn("files of a run cannot be made", "run", id, "error", err)
		return "", status.Errorf(codes.FailedPrecondition, "the files of run %s cannot be made: the log says why", id)
	}
	return dir, nil
}

// current reports whether a run's files were made after its ledger was written last.
func current(dir string) bool {
	from, err1 := os.Stat(filepath.Join(dir, ledger.File))
	made, err2 := os.Stat(filepath.Join(dir, reportFile))
	return err1 == nil && err2 == nil && !made.ModTime().Before(from.ModTime())
}

// takeTurn waits until no other request makes files or compares, because both take a core. Its error is a status. The
// caller calls endTurn.
func (s *Server) takeTurn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, workTimeout)
	defer cancel()
	select {
	case s.work <- struct{}{}:
		return nil
	case <-ctx.Done():
		return status.Error(codes.Unavailable, "others wait for files and comparisons of runs: try again later")
	}
}

func (s *Server) endTurn() { <-s.work }

func (s *Server) getComparison(w http.ResponseWriter, r *http.Request) {
	text, err := s.compare(r, "json")
	if err != nil {
		failed(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // a viewer who has gone
}

// compare compares two runs that a request names, in a format of package show. Its error is a status.
func (s *Server) compare(r *http.Request, format string) ([]byte, error) {
	q := r.URL.Query()
	tolerance, err := compare.Tolerance(cmp.Or(q.Get("tolerance"), compare.DefaultTolerance))
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "tolerance=%v", err)
	}
	invalid, err := flag(r, "allow_invalid")
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, side := range []string{"baseline", "run"} {
		if q.Get(side) == "" {
			return nil, status.Errorf(codes.InvalidArgument, "%s is not given: name a run", side)
		}
		dir, err := s.files(r.Context(), q.Get(side))
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	if err := s.takeTurn(r.Context()); err != nil {
		return nil, err
	}
	defer s.endTurn()
	return compareRuns(dirs, []string{q.Get("baseline"), q.Get("run")}, format,
		compare.Options{Tolerance: tolerance, AllowInvalid: invalid})
}

// compareRuns compares the runs in two directories. Its error is a status.
func compareRuns(dirs, names []string, format string, o compare.Options) ([]byte, error) {
	var sides []compare.Side
	var files []*runfiles.File
	defer func() {
		for _, f := range files {
			_ = f.Close() // opened for reading only
		}
	}()
	for i, dir := range dirs {
		file, err := runfiles.Open(dir)
		if err != nil {
			return nil, status.Errorf(codes.FailedPrecondition, "run %s cannot be read", names[i])
		}
		files = append(files, file)
		file.Name = names[i]
		sides = append(sides, compare.Side{Name: names[i], Runs: []*compare.Run{&file.Run}})
	}
	c, err := compare.Of(sides, o)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	var b bytes.Buffer
	if err := show.Write(&b, c, format, 100, true); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return b.Bytes(), nil
}
