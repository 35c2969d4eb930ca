package web

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/compare/runfiles"
	"github.com/spate-load/spate/internal/lists"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/report/page"
	"github.com/spate-load/spate/watch"
)

// How often pages are drawn.
const (
	// settle is how long a page waits for the events that a run already has.
	settle = 50 * time.Millisecond
	// refresh is how often a page looks for something new.
	refresh = 500 * time.Millisecond
	// share is how much longer than it took to draw a page no other is drawn: pages take at most a tenth of a core,
	// however many people watch.
	share = 9
	// listed is how many runs the page of all runs lists.
	listed = 100
	// closingTimeout bounds how long a run that has ended takes to become an ended one.
	closingTimeout = 5 * time.Second
)

// site returns the routes of the pages for people.
func (s *Server) site() []route {
	return []route{
		{http.MethodGet, "/{$}", s.orFailure(s.homePage)},
		{http.MethodGet, "/parts", s.homeParts},
		{http.MethodGet, "/runs/{id}", s.orFailure(s.runPage)},
		{http.MethodGet, "/runs/{id}/parts", s.runParts},
		{http.MethodPost, "/runs/{id}/stop", s.orFailure(s.stopPage)},
		{http.MethodGet, "/history", s.orFailure(s.historyPage)},
		{http.MethodGet, "/compare", s.orFailure(s.comparePage)},
		{http.MethodGet, "/style.css", asset("text/css; charset=utf-8", append([]byte(page.Sheet()), style...))},
		{http.MethodGet, "/script.js", asset("text/javascript; charset=utf-8", script)},
		{http.MethodGet, "/favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }},
	}
}

// asset returns a handler that answers with a file of all pages.
func asset(media string, text []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		_, _ = w.Write(text) // a viewer who has gone
	}
}

// orFailure returns a handler that answers with a page, or with one about a failed call, whose error is a status.
func (s *Server) orFailure(page func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := page(w, r); err != nil {
			s.failurePage(w, err)
		}
	}
}

func (s *Server) homePage(w http.ResponseWriter, r *http.Request) error {
	n, err := s.newest(w, r, "/", s.produceHome)
	if err != nil {
		return err
	}
	return s.page(w, http.StatusOK, func(b *bytes.Buffer) error {
		return n.state.(Home).Write(b, s.frame(r, n, "/parts"), r.URL.Query().Get("baseline")) //nolint:forcetypeassert // produceHome's
	})
}

func (s *Server) homeParts(w http.ResponseWriter, r *http.Request) { s.parts(w, r, "/", s.produceHome) }

func (s *Server) runPage(w http.ResponseWriter, r *http.Request) error {
	path, produce, err := s.runTopic(r)
	if err != nil {
		return err
	}
	n, err := s.newest(w, r, path, produce)
	if err != nil {
		return err
	}
	run := n.state.(Run) //nolint:forcetypeassert // produceRun's
	events := "/runs/" + run.Summary.GetRunId() + "/parts"
	if run.Stage != nil {
		events += "?stage=" + strconv.Itoa(int(*run.Stage)+1)
	}
	return s.page(w, http.StatusOK, func(b *bytes.Buffer) error { return run.Write(b, s.frame(r, n, events)) })
}

func (s *Server) runParts(w http.ResponseWriter, r *http.Request) {
	path, produce, err := s.runTopic(r)
	if err != nil {
		failed(w, err)
		return
	}
	s.parts(w, r, path, produce)
}

// runTopic returns the topic of a run's page, or of one of its stages. Its error is a status.
func (s *Server) runTopic(r *http.Request) (path string, produce func(context.Context, *topic), err error) {
	id := r.PathValue("id")
	number, err := number(r, "stage", 32)
	if err != nil {
		return "", nil, err
	}
	path = "/runs/" + id
	var stage *uint32
	if number > 0 {
		if run, err := s.summary(r.Context(), id); err != nil {
			return "", nil, err
		} else if number > uint64(run.GetStages()) {
			return "", nil, status.Errorf(codes.NotFound, "run %s has no stage %d: its plan has at most %d", id, number,
				run.GetStages())
		}
		path += "?stage=" + strconv.FormatUint(number, 10)
		stage = new(uint32(number - 1))
	}
	return path, func(ctx context.Context, t *topic) { s.produceRun(ctx, t, id, stage) }, nil
}

// frame returns what surrounds a page's parts.
func (s *Server) frame(r *http.Request, n news, events string) Frame {
	_, writes := s.rights.writer(r)
	f := Frame{Events: events, MayWrite: writes || s.rights.hasTokens(), History: !s.local}
	if n.over {
		f.Events = ""
	}
	f.Parts = lists.Each(n.parts, func(p part) Part { return p.Part })
	return f
}

// newest returns what a topic shows now. Its error is a status.
func (s *Server) newest(
	w http.ResponseWriter, r *http.Request, path string, produce func(context.Context, *topic),
) (news, error) {
	t, release, err := s.topics.watch(path, s.viewerOf(r), produce)
	if err != nil {
		w.Header().Set("Refresh", "10")
		return news{}, err
	}
	defer release()
	limit := time.NewTimer(workTimeout)
	defer limit.Stop()
	for {
		n := t.after(0)
		if n.err != nil || n.version > 0 {
			return n, n.err
		}
		select {
		case <-n.more:
		case <-limit.C:
			return n, status.Error(codes.Unavailable, "the page takes too long: try again later")
		case <-s.closing:
			return n, errClosing
		case <-r.Context().Done():
			return n, status.FromContextError(r.Context().Err()).Err()
		}
	}
}

// parts streams the parts of a topic as they change. A viewer who reads slowly skips states.
func (s *Server) parts(w http.ResponseWriter, r *http.Request, path string, produce func(context.Context, *topic)) {
	out, ok := s.open(w, r)
	if !ok {
		return
	}
	defer out.close()
	t, release, err := s.topics.watch(path, s.viewerOf(r), produce)
	if err != nil {
		failed(w, err)
		return
	}
	defer release()
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for version, closing := uint64(0), false; ; {
		n := t.after(version)
		version = n.version
		if n.err != nil && !out.begun {
			failed(w, n.err)
			return
		}
		if err := out.send(n.text()); err != nil || n.over || n.err != nil || closing {
			return
		}
		select {
		case <-n.more:
		case <-alive.C:
		case <-s.closing:
			closing = true // a last look
		case <-r.Context().Done():
			return
		}
	}
}

// text returns news as server-sent events: a comment if there are none.
func (n news) text() []byte {
	text := []byte(nil)
	for _, p := range n.parts {
		text = append(text, p.event...)
	}
	if n.over {
		text = append(text, event("", "over", []byte("."))...)
	}
	if len(text) == 0 {
		return comment
	}
	return text
}

// inDrawingTurn waits until a page may be drawn, and calls draw. It reports whether draw was called: not if ctx ended
// before the turn.
func (s *Server) inDrawingTurn(ctx context.Context, draw func()) bool {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	begin := time.Now()
	defer func() { // also if draw panics: there is one turn for the whole site
		time.AfterFunc(share*time.Since(begin), func() { <-s.turn })
	}()
	draw()
	return true
}

// produceHome publishes the page of all runs.
func (s *Server) produceHome(ctx context.Context, t *topic) {
	tick := time.NewTicker(2 * refresh)
	defer tick.Stop()
	for {
		runs, err1 := s.runs.ListRuns(ctx, &spatev1.ListRunsRequest{Limit: listed})
		agents, err2 := s.runs.ListAgents(ctx, &spatev1.ListAgentsRequest{})
		if err := errors.Join(err1, err2); err != nil {
			s.topics.fail(t, err)
			return
		}
		home := Home{Runs: runs.GetRuns(), Queue: waiting(runs.GetRuns()), Agents: agents.GetAgents(), Now: time.Now()}
		if !s.draw(ctx, t, home, home.Parts, false) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// draw draws and publishes a state. It returns false if the topic has ended.
func (s *Server) draw(ctx context.Context, t *topic, state any, parts func() ([]Part, error), over bool) bool {
	var list []Part
	var err error
	if !s.inDrawingTurn(ctx, func() {
		defer func() {
			if fault := recover(); fault != nil { // on a goroutine of ours, which would end the program
				err = s.faulted(fault)
			}
		}()
		list, err = parts()
	}) {
		return false
	}
	if err != nil {
		s.log.Error("page cannot be drawn", "error", err)
		s.topics.fail(t, errDrawing)
		return false
	}
	t.publish(state, list, over)
	return true
}

// produceRun publishes the page of a run, with the stage of an index, or else the one in progress.
func (s *Server) produceRun(ctx context.Context, t *topic, id string, stage *uint32) {
	page := Run{State: watch.New(), Stage: stage}
	if err := s.look(ctx, &page, id); err != nil {
		s.topics.fail(t, err)
		return
	}
	page.Before = s.before(ctx, page.Summary)
	events, ended, end := s.follow(ctx, &spatev1.FollowRunRequest{RunId: id, Windows: true})
	defer end()
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	first := time.After(settle)
	for changed := true; ; {
		select {
		case e := <-events:
			changed = page.State.Take(e.GetNumber(), e.GetEvent()) || changed
			continue
		case err := <-ended:
			s.produceEnd(ctx, t, page, err)
			return
		case <-ctx.Done():
			return
		case <-first:
		case <-tick.C:
		}
		if page.Summary.GetState() != spatev1.RunState_RUN_STATE_RUNNING {
			if err := s.look(ctx, &page, id); err != nil {
				s.topics.fail(t, err)
				return
			}
			changed = true
		}
		if !changed {
			continue
		}
		if changed = false; !s.draw(ctx, t, page, page.Parts, false) {
			return
		}
	}
}

// produceEnd publishes the page of a run whose events have ended, with an error or nil. After the last event, a run
// takes a moment to become an ended one. A server that closes does not wait for that.
func (s *Server) produceEnd(ctx context.Context, t *topic, page Run, err error) {
	limit := time.After(closingTimeout)
	for waits := true; waits && !page.Over(); {
		if err2 := s.look(ctx, &page, page.Summary.GetRunId()); err2 != nil {
			err = errors.Join(err, err2)
			break
		}
		if err != nil || page.Over() {
			break
		}
		select {
		case <-time.After(refresh / 10):
		case <-limit:
			waits = false
		case <-ctx.Done():
			waits = false
		}
	}
	if e := page.State.Ended; e != nil && !page.Over() {
		page.Summary = proto.CloneOf(page.Summary)
		page.Summary.State, page.Summary.Outcome = spatev1.RunState_RUN_STATE_ENDED, e.GetOutcome()
		page.Summary.Complete, page.Summary.Verdict = e.GetComplete(), e.GetVerdict()
		page.Summary.Reason = e.GetReason()
		page.Summary.EndTime = timestamppb.New(page.State.Latest)
	}
	if !page.Over() {
		s.topics.fail(t, status.Convert(cmp.Or(err, errClosing)).Err())
		return
	}
	if page.Result == nil && err == nil { // it is in the files, which take a while
		s.draw(ctx, t, page, page.Parts, false)
		if _, err := s.files(ctx, page.Summary.GetRunId()); err == nil {
			_ = s.look(ctx, &page, page.Summary.GetRunId()) // without it the page says less
		}
	}
	s.draw(context.WithoutCancel(ctx), t, page, page.Parts, true)
}

// before returns what the last run of a run's plan carried: by the history, or of a local run by the results beside it.
func (s *Server) before(ctx context.Context, run *spatev1.RunSummary) []*spatev1.HistoryLine {
	if !s.local {
		ask := &spatev1.ReadHistoryRequest{Plan: run.GetPlan(), Metric: carried, Limit: 1}
		answer, _ := s.runs.ReadHistory(ctx, ask) // without one the page says less
		return answer.GetLines()
	}
	dirs, _ := runfiles.Newest(filepath.Dir(s.dir(run.GetRunId())), 20)
	for _, dir := range dirs {
		r := resultIn(dir)
		if r == nil || r.Run.ID == run.GetRunId() || *cmp.Or(r.Run.Plan, new("")) != run.GetPlan() {
			continue
		}
		metric, _ := compare.MetricNamed(carried)
		lines, _ := compare.History([]*compare.Run{{Result: r}}, metric, compare.Options{}) // of one run nothing fails
		return lines
	}
	return nil
}

// look brings what the list of runs says of a run up to date. Its error is a status.
func (s *Server) look(ctx context.Context, page *Run, id string) error {
	run, err := s.summary(ctx, id)
	if err != nil {
		return err
	}
	page.Summary = run
	page.Files = nil
	if dir := s.dir(id); page.Over() && current(dir) {
		page.Files = filesIn(dir)
		page.Result = resultIn(dir)
	} else if page.Over() {
		page.Files = []fileInfo{{Name: reportFile}, {Name: results.File}, {Name: "report.md"}, {Name: "vllm.txt"}}
	}
	return nil
}

func (s *Server) stopPage(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxHeader)
	if err := r.ParseForm(); err != nil {
		return status.Error(codes.InvalidArgument, "the form cannot be read")
	}
	if _, err := s.stop(r, r.PostForm.Get("immediately") == "true"); err != nil {
		return err
	}
	http.Redirect(w, r, "/runs/"+r.PathValue("id"), http.StatusSeeOther)
	return nil
}

func (s *Server) historyPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	answer, err := s.history(r)
	if err != nil {
		return err
	}
	page := History{
		Plans: answer.GetPlans(), Lines: answer.GetLines(), Plan: q.Get("plan"), Target: q.Get("target"),
		Metric: cmp.Or(q.Get("metric"), compare.DefaultMetric),
	}
	return s.page(w, http.StatusOK, func(b *bytes.Buffer) (err error) {
		// A viewer who has gone before the turn gets an empty page.
		s.inDrawingTurn(r.Context(), func() { err = page.Write(b, s.frame(r, news{}, "")) })
		return err
	})
}

func (s *Server) comparePage(w http.ResponseWriter, r *http.Request) error {
	text, err := s.compare(r, "html")
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", reportPolicy)
	_, _ = w.Write(text) // a viewer who has gone
	return nil
}

// page answers with a page. Its error is a status.
func (s *Server) page(w http.ResponseWriter, code int, draw func(*bytes.Buffer) error) error {
	var b bytes.Buffer
	if err := draw(&b); err != nil {
		s.log.Error("page cannot be drawn", "error", err)
		return errDrawing
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // a viewer who has gone
	return nil
}

// errDrawing is about a fault of this package.
var errDrawing = status.Error(codes.Internal, "the page cannot be drawn: the log says why")

// failurePage answers with a page about a failed call.
func (s *Server) failurePage(w http.ResponseWriter, err error) {
	of := status.Convert(err)
	code := codeOf(of.Code())
	if s.page(w, code, func(b *bytes.Buffer) error { return Failure(b, http.StatusText(code), of.Message()) }) != nil {
		failed(w, errDrawing)
	}
}
