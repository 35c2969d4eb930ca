package simulator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/simulator/api"
	"github.com/spate-load/spate/simulator/config"
	"github.com/spate-load/spate/simulator/wire"
)

// endpoint serves the APIs in front of one engine, several replicas, or a disaggregated group. It is safe for
// concurrent use.
type endpoint struct {
	config  config.Config
	number  int
	engines []*loop
	routing sync.Mutex // makes choosing the least busy engine and counting the request on it atomic
	truth   *truthLog
	mux     *http.ServeMux
	created int64 // wall clock in seconds, as in the APIs
	serial  atomic.Uint64
	ends    endCounts

	life   sync.RWMutex // held for reading by each handler, so that Close can wait for them
	closed bool
}

// endCounts counts requests by the way they ended.
type endCounts struct {
	length, stop, abort atomic.Uint64
}

// newEndpoint returns the endpoint of that number. Its engines run until Close.
func newEndpoint(c config.Config, number int, truth *truthLog) *endpoint {
	ep := &endpoint{config: c, number: number, truth: truth, created: time.Now().Unix()}
	for i := range c.Loops() {
		ep.engines = append(ep.engines, newLoop(&c, number*c.Loops()+i))
	}
	ep.mux = http.NewServeMux()
	for route, a := range api.Routes() {
		ep.mux.HandleFunc(route, ep.generate(a))
	}
	ep.mux.HandleFunc("POST /tokenize", ep.tokenize)
	ep.mux.HandleFunc("GET /v1/models", ep.models)
	ep.mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	ep.mux.HandleFunc("GET /metrics", ep.metrics)
	ep.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		api.UnknownPath(r.Method, r.URL.Path).WriteTo(w)
	})
	return ep
}

// ServeHTTP implements http.Handler. After Close it drops the connection.
func (ep *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ep.life.RLock()
	defer ep.life.RUnlock()
	if ep.closed {
		panic(http.ErrAbortHandler)
	}
	ep.mux.ServeHTTP(w, r)
}

// Close stops the engines, which ends the requests in flight, and waits for all handlers. A handler that writes to a
// client that does not read ends only with its connection, so close the server first. Close may be called more than
// once.
func (ep *endpoint) Close() {
	for _, l := range ep.engines {
		l.close()
	}
	ep.life.Lock()
	defer ep.life.Unlock()
	ep.closed = true
}

// models answers with the single model.
func (ep *endpoint) models(w http.ResponseWriter, r *http.Request) {
	if !api.HasKey(r, &ep.config) {
		api.Unauthorized().WriteTo(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"object":"list","data":[`+
		`{"id":%s,"object":"model","created":%d,"owned_by":%s,"max_model_len":%s}]}`,
		api.JSON(ep.config.ServedName()), ep.created, api.JSON(ep.config.Dialect.OwnedBy),
		api.ModelLength(&ep.config))
}

// generate returns the handler of a generation API.
func (ep *endpoint) generate(a api.API) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		record := &Record{RequestID: ep.requestID(r), Endpoint: ep.number}
		record.received(r)
		defer func() {
			record.Ended = clock.Now()
			ep.truth.add(record)
		}()
		w.Header().Set("X-Request-Id", string(api.AppendToken(nil, record.RequestID)))
		if problem := ep.answer(a, w, r, record); problem != nil {
			status, body := a.Problem(problem)
			record.Status = status
			api.WriteProblem(w, status, body)
		}
	}
}

// parse reads a request that may be served.
func (ep *endpoint) parse(a api.API, w http.ResponseWriter, r *http.Request) (*api.Request, *api.Error) {
	if !api.HasKey(r, &ep.config) {
		return nil, api.Unauthorized()
	}
	body, problem := ep.read(w, r)
	if problem != nil {
		return nil, problem
	}
	return a.Parse(r, body, &ep.config)
}

// answer serves one request. It returns an error that is still to be sent as the response, or nil if the response has
// been sent.
func (ep *endpoint) answer(a api.API, w http.ResponseWriter, r *http.Request, record *Record) *api.Error {
	q, problem := ep.parse(a, w, r)
	if problem != nil {
		return problem
	}
	record.received(r)
	record.PromptTokens, record.Stream = q.PromptTokens, q.Stream
	random := api.RequestRand(ep.config.Seed, record.RequestID)
	fault := chooseFault(ep.config.Faults, random)
	if problem := api.ExactOutput(&ep.config.Dialect, q); problem != nil {
		return problem
	}
	q.Script = api.DrawScript(&ep.config, q, random)
	q.Script.Wrong = ep.isWrong(random.Float64())
	if fault != nil {
		record.Fault = fault.Kind
		switch fault.Kind {
		case config.FaultTooManyRequests:
			return api.TooManyRequests()
		case config.FaultServerError:
			return api.ServerError()
		case config.FaultGarbage:
			record.Status = http.StatusOK
			w.Header().Set("Content-Type", "text/html") // what a broken proxy might send
			_, _ = io.WriteString(w, "<html><body><h1>It works!</h1>{\"choices\": \x00\xff</body></html>\n")
			return nil
		case config.FaultJSONBody:
			q.Stream, record.Stream, fault = false, false, nil
		}
	}
	p := newReply(ep, w, q, record, fault)
	if q.Stream {
		p.direct = wire.DirectOf(r)
	}
	ep.run(r.Context(), p)
	return nil
}

// isWrong reports whether the answer to a request that has come is wrong, by a number drawn from 0 to 1.
func (ep *endpoint) isWrong(drawn float64) bool {
	c, inFlight := &ep.config, 1
	for _, l := range ep.engines {
		inFlight += int(l.inFlight.Load())
	}
	return drawn < c.WrongShare && inFlight > c.WrongAbove && (c.WrongEndpoint == 0 || c.WrongEndpoint == ep.number+1)
}

// run passes the reply through an engine.
func (ep *endpoint) run(ctx context.Context, p *reply) {
	p.record.Replica, p.engine = ep.route()
	p.ctx = ctx
	p.seq.Arrived = p.record.Received
	p.engine.send(command{at: p.seq.Arrived, seq: p.seq})
	defer p.release()
	p.send()
}

// route returns the engine with the fewest requests in flight, and counts this request on it.
func (ep *endpoint) route() (int, *loop) {
	ep.routing.Lock()
	defer ep.routing.Unlock()
	least := 0
	for i, l := range ep.engines {
		if l.inFlight.Load() < ep.engines[least].inFlight.Load() {
			least = i
		}
	}
	ep.engines[least].inFlight.Add(1)
	return least, ep.engines[least]
}

// requestID returns the client's X-Request-Id, limited to 256 bytes, or an ID made from the request's number.
func (ep *endpoint) requestID(r *http.Request) string {
	const longest = 256
	if id := r.Header.Get("X-Request-Id"); id != "" {
		return id[:min(len(id), longest)]
	}
	return "sim-" + strconv.Itoa(ep.number) + "-" + strconv.FormatUint(ep.serial.Add(1), 10)
}

// maxBody is the maximum length of a request's body.
const maxBody = 64 << 20

// read reads the body.
func (ep *endpoint) read(w http.ResponseWriter, r *http.Request) ([]byte, *api.Error) {
	const grow = 1 << 20 // a mere claim of a large body allocates nothing more
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), grow)) + bytes.MinRead)
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, api.BodyTooLarge(maxBody)
	}
	if err != nil {
		return nil, api.BadRequest("the body is incomplete")
	}
	return body.Bytes(), nil
}

// tokenize counts the tokens of a prompt.
func (ep *endpoint) tokenize(w http.ResponseWriter, r *http.Request) {
	body, problem := ep.read(w, r)
	if !api.HasKey(r, &ep.config) {
		problem = api.Unauthorized()
	}
	if problem == nil {
		body, problem = api.Tokenize(body, &ep.config)
	}
	if problem != nil {
		problem.WriteTo(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}
