package web

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/compare"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// root is where REST starts. A change that breaks programs needs another one.
const root = "/api/v1"

// maxPlan is the largest plan that is accepted, in bytes.
const maxPlan = 4 << 20

//go:embed openapi.yaml
var openAPI []byte

// call is a route of REST. It refuses what it does not take: without a mistyped parameter, or with the parameters in a
// body, something else would be done.
type call struct {
	route
	takes string // parameters of the query, separated by blanks
	body  bool   // it takes a body
}

// ServeHTTP implements http.Handler.
func (c call) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := parameters(r, strings.Fields(c.takes)); err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	if !c.body && hasBody(r) {
		problem(w, http.StatusBadRequest, "this takes no body: parameters belong in the query")
		return
	}
	c.handle(w, r)
}

// hasBody reports whether a request has a body that is not empty, or one that cannot be read. It reads from a body of
// unknown length.
func hasBody(r *http.Request) bool {
	if r.ContentLength >= 0 {
		return r.ContentLength > 0
	}
	n, err := io.ReadFull(r.Body, make([]byte, 1))
	return n > 0 || !errors.Is(err, io.EOF)
}

// api returns the routes of REST. openapi.yaml describes them.
func (s *Server) api() []call {
	return []call{
		{route{http.MethodGet, root + "/openapi.yaml", asset("application/yaml", openAPI)}, "", false},
		{route{http.MethodGet, root + "/runs", answer(s.listRuns)}, "limit", false},
		{route{http.MethodPost, root + "/runs", s.submitRun}, "min_agents agents_timeout priority records", true},
		{route{http.MethodGet, root + "/runs/{id}", answer(s.getRun)}, "", false},
		{route{http.MethodDelete, root + "/runs/{id}", answer(s.removeRun)}, "", false},
		{route{http.MethodPost, root + "/runs/{id}/stop", answer(s.stopRun)}, "immediately", false},
		{route{http.MethodGet, root + "/runs/{id}/events", s.followRun}, "windows after", false},
		{route{http.MethodGet, root + "/runs/{id}/files", s.listFiles}, "", false},
		{route{http.MethodGet, root + "/runs/{id}/files/{name}", s.getFile}, "", false},
		{route{http.MethodGet, root + "/queue", answer(s.listQueue)}, "", false},
		{route{http.MethodGet, root + "/agents", answer(s.listAgents)}, "", false},
		{route{http.MethodPost, root + "/agents/{name}/cordon", answer(s.cordon(spatev1.Cordon_CORDON_CORDONED))}, "", false},
		{route{http.MethodPost, root + "/agents/{name}/drain", answer(s.cordon(spatev1.Cordon_CORDON_DRAINED))}, "", false},
		{route{http.MethodPost, root + "/agents/{name}/uncordon", answer(s.cordon(spatev1.Cordon_CORDON_UNSPECIFIED))}, "", false},
		{route{http.MethodGet, root + "/history", answer(s.history)}, "plan metric limit", false},
		{route{http.MethodGet, root + "/comparison", s.getComparison}, "baseline run tolerance allow_invalid", false},
	}
}

func (s *Server) listRuns(r *http.Request) (*spatev1.ListRunsResponse, error) {
	limit, err := number(r, "limit", 32)
	if err != nil {
		return nil, err
	}
	return s.runs.ListRuns(r.Context(), &spatev1.ListRunsRequest{Limit: uint32(limit)})
}

func (s *Server) getRun(r *http.Request) (*spatev1.RunSummary, error) {
	return s.summary(r.Context(), r.PathValue("id"))
}

// summary returns the summary of a run. Its error is a status.
func (s *Server) summary(ctx context.Context, id string) (*spatev1.RunSummary, error) {
	list, err := s.runs.ListRuns(ctx, &spatev1.ListRunsRequest{RunId: id})
	if err != nil {
		return nil, err
	}
	if len(list.GetRuns()) != 1 {
		return nil, status.Errorf(codes.NotFound, "there is no run %.128q here", id)
	}
	return list.GetRuns()[0], nil
}

func (s *Server) submitRun(w http.ResponseWriter, r *http.Request) {
	agents, err1 := number(r, "min_agents", 32)
	wait, err2 := queryValue(r, "agents_timeout", time.Minute, "a duration such as 30s", positiveDuration)
	priority, err4 := queryValue(r, "priority", 0, "a whole number",
		func(text string) (int64, error) { return strconv.ParseInt(text, 10, 32) })
	plan, err3 := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPlan))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err3, &tooLarge) {
		problem(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the plan is larger than %d bytes", maxPlan))
		return
	}
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		problem(w, http.StatusBadRequest, status.Convert(err).Message())
		return
	}
	submitted, err := s.runs.SubmitRun(r.Context(), &spatev1.SubmitRunRequest{
		PlanYaml: plan, PlanPath: "plan.yaml", MinAgents: max(uint32(agents), 1), AgentsTimeout: durationpb.New(wait),
		Records: r.URL.Query().Get("records"), Priority: int32(priority),
	})
	if err != nil {
		failed(w, err)
		return
	}
	w.Header().Set("Location", root+"/runs/"+submitted.GetRunId())
	write(w, http.StatusCreated, submitted)
}

// positiveDuration parses a duration above 0.
func positiveDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if d <= 0 {
		err = strconv.ErrRange
	}
	return d, err
}

func (s *Server) removeRun(r *http.Request) (*spatev1.RemoveRunResponse, error) {
	return s.runs.RemoveRun(r.Context(), &spatev1.RemoveRunRequest{RunId: r.PathValue("id")})
}

func (s *Server) stopRun(r *http.Request) (*spatev1.StopRunResponse, error) {
	immediately, err := flag(r, "immediately")
	if err != nil {
		return nil, err
	}
	return s.stop(r, immediately)
}

// stop stops the run that the path of a request names.
func (s *Server) stop(r *http.Request, immediately bool) (*spatev1.StopRunResponse, error) {
	id := r.PathValue("id")
	s.log.Info("run is asked to stop over HTTP", "run", id, "from", r.RemoteAddr)
	return s.runs.StopRun(r.Context(), &spatev1.StopRunRequest{RunId: id, Immediately: immediately})
}

func (s *Server) listQueue(r *http.Request) (*spatev1.ListRunsResponse, error) {
	list, err := s.runs.ListRuns(r.Context(), &spatev1.ListRunsRequest{Limit: 1000})
	return &spatev1.ListRunsResponse{Runs: waiting(list.GetRuns())}, err
}

// waiting returns the waiting runs of a list in the order in which they will start.
func waiting(runs []*spatev1.RunSummary) (queue []*spatev1.RunSummary) {
	for _, r := range slices.Backward(runs) {
		if r.GetState() == spatev1.RunState_RUN_STATE_WAITING {
			queue = append(queue, r)
		}
	}
	return queue
}

func (s *Server) listAgents(r *http.Request) (*spatev1.ListAgentsResponse, error) {
	return s.runs.ListAgents(r.Context(), &spatev1.ListAgentsRequest{})
}

// cordon returns a call that changes whether the agent that the path of a request names takes runs.
func (s *Server) cordon(to spatev1.Cordon) func(*http.Request) (*spatev1.CordonAgentsResponse, error) {
	return func(r *http.Request) (*spatev1.CordonAgentsResponse, error) {
		return s.runs.CordonAgents(r.Context(), &spatev1.CordonAgentsRequest{
			Agents: []string{r.PathValue("name")}, Cordon: to,
		})
	}
}

// history returns the number over the runs that a request asks for.
func (s *Server) history(r *http.Request) (*spatev1.ReadHistoryResponse, error) {
	q := r.URL.Query()
	limit, err := number(r, "limit", 32)
	if err != nil {
		return nil, err
	}
	return s.runs.ReadHistory(r.Context(), &spatev1.ReadHistoryRequest{
		Plan: q.Get("plan"), Metric: cmp.Or(q.Get("metric"), compare.DefaultMetric), Limit: uint32(limit),
	})
}

// format is that of all messages: what has its default value is written, what is not known is left out.
var format = protojson.MarshalOptions{EmitDefaultValues: true}

// answer returns a handler that answers with what a call returns. Its error is a status.
func answer[M proto.Message](call func(*http.Request) (M, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m, err := call(r)
		if err != nil {
			failed(w, err)
			return
		}
		write(w, http.StatusOK, m)
	}
}

// write answers with a message.
func write(w http.ResponseWriter, code int, m proto.Message) {
	text, err := format.Marshal(m)
	if err != nil {
		problem(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text) // a viewer who has gone
}

// problem answers with what went wrong, as RFC 9457 has it.
func problem(w http.ResponseWriter, code int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{ // a viewer who has gone
		"title": http.StatusText(code), "status": code, "detail": detail,
	})
}

// failed answers with the status of a failed call.
func failed(w http.ResponseWriter, err error) {
	s := status.Convert(err)
	problem(w, codeOf(s.Code()), s.Message())
}

// statuses are the HTTP statuses for the codes of a call that are not internal errors.
var statuses = map[codes.Code]int{
	codes.InvalidArgument: http.StatusBadRequest, codes.PermissionDenied: http.StatusForbidden,
	codes.NotFound: http.StatusNotFound, codes.FailedPrecondition: http.StatusConflict,
	codes.ResourceExhausted: http.StatusTooManyRequests, codes.Unavailable: http.StatusServiceUnavailable,
	codes.Canceled: http.StatusServiceUnavailable, codes.DeadlineExceeded: http.StatusServiceUnavailable,
}

func codeOf(c codes.Code) int { return cmp.Or(statuses[c], http.StatusInternalServerError) }

// parameters refuses a query that has other parameters than these.
func parameters(r *http.Request, names []string) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(names, name) {
			return fmt.Errorf("parameter %.40q is not known here: want %s", name,
				cmp.Or(strings.Join(names, ", "), "none"))
		}
	}
	return nil
}

// queryValue returns a parameter of a request's query, as parse reads it. want says for people what it should be. Its
// error is a status.
func queryValue[T any](
	r *http.Request, name string, otherwise T, want string, parse func(text string) (T, error),
) (T, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	v, err := parse(text)
	if err != nil {
		return otherwise, status.Errorf(codes.InvalidArgument, "%s=%.40q: want %s", name, text, want)
	}
	return v, nil
}

// number returns a number of a request's query, 0 if it is not there.
func number(r *http.Request, name string, bits int) (uint64, error) {
	return queryValue(r, name, 0, "a whole number from 0 on",
		func(text string) (uint64, error) { return strconv.ParseUint(text, 10, bits) })
}

// flag returns a yes or no of a request's query, no if it is not there.
func flag(r *http.Request, name string) (bool, error) {
	return queryValue(r, name, false, "true or false", func(text string) (bool, error) {
		if text != "true" && text != "false" {
			return false, strconv.ErrSyntax
		}
		return text == "true", nil
	})
}
