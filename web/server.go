// Package web shows a coordinator's runs: to people as pages that follow them live, to programs as REST with JSON
// under /api/v1, described by openapi.yaml. Each page consists of a frame, and of parts that change: a viewer's browser
// replaces them as new ones come. A page without its script shows the state of the moment at which it was asked for.
//
// It calls the coordinator's RunService in this process, and reads the directories of ended runs. A viewer who is slow,
// gone or hostile does not affect a run.
package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Runs is what pages and programs need of a coordinator's RunService.
type Runs interface {
	SubmitRun(context.Context, *spatev1.SubmitRunRequest) (*spatev1.SubmitRunResponse, error)
	FollowRun(*spatev1.FollowRunRequest, spatev1.RunService_FollowRunServer) error
	StopRun(context.Context, *spatev1.StopRunRequest) (*spatev1.StopRunResponse, error)
	ListRuns(context.Context, *spatev1.ListRunsRequest) (*spatev1.ListRunsResponse, error)
	RemoveRun(context.Context, *spatev1.RemoveRunRequest) (*spatev1.RemoveRunResponse, error)
	ListAgents(context.Context, *spatev1.ListAgentsRequest) (*spatev1.ListAgentsResponse, error)
	CordonAgents(context.Context, *spatev1.CordonAgentsRequest) (*spatev1.CordonAgentsResponse, error)
	ReadHistory(context.Context, *spatev1.ReadHistoryRequest) (*spatev1.ReadHistoryResponse, error)
}

// Config configures a Server.
type Config struct {
	// Runs is the coordinator's service.
	Runs Runs
	// Dir returns the directory of a run that has ended. Its id is valid.
	Dir func(id string) string
	// Rights decides who may change anything.
	Rights Rights
	// Local says that this is the coordinator of a local run: its agents end with it, and it has neither an audit log
	// nor a history.
	Local bool
	// Logger receives log messages. Default slog.Default().
	Logger *slog.Logger
}

// Bounds on what viewers can ask for.
const (
	maxConnections = 2048
	maxStreams     = 1024             // open at a time, of pages and of REST together
	maxHeader      = 16 << 10         // bytes
	headerTimeout  = 5 * time.Second  // for the head of a request
	bodyTimeout    = 30 * time.Second // for a whole request
	answerTimeout  = 10 * time.Minute // for a whole answer, except those of streams
	pieceTimeout   = 10 * time.Second // for an event of a stream
	idleTimeout    = time.Minute
	workTimeout    = time.Minute // for the wait until a run's files or a comparison can be made
)

// Server serves pages and REST. Its methods may be called concurrently.
//
//	New -> Serve (blocks) or Handler -> Close
type Server struct {
	runs    Runs
	dir     func(id string) string
	rights  Rights
	local   bool
	log     *slog.Logger
	http    *http.Server
	streams chan struct{} // a slot for each open stream
	held    viewers       // streams of each viewer
	work    chan struct{} // the slot of the request that makes files or compares
	turn    chan struct{} // the slot of the page that is being drawn
	topics  topics
	closing chan struct{} // closed by Close: streams end
	once    sync.Once

	perViewer int // streams that a viewer may have open
}

// New makes a server. It starts nothing.
func New(c Config) *Server {
	c.Logger = cmp.Or(c.Logger, slog.Default())
	s := &Server{
		runs: c.Runs, dir: c.Dir, rights: c.Rights, local: c.Local, log: c.Logger,
		streams: make(chan struct{}, maxStreams), work: make(chan struct{}, 1),
		turn: make(chan struct{}, 1), topics: topics{most: maxTopics}, closing: make(chan struct{}),
		perViewer: viewerStreams,
	}
	s.http = &http.Server{
		Handler: s.Handler(), MaxHeaderBytes: maxHeader, ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout,
		IdleTimeout: idleTimeout, WriteTimeout: answerTimeout,
		ErrorLog: slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug), // viewers cause most of them
	}
	return s
}

// Serve serves on a listener until Close, and closes the listener. secure has the certificates; nil: plaintext.
func (s *Server) Serve(l net.Listener, secure *tls.Config) error {
	l = &fairListener{Listener: netutil.LimitListener(l, maxConnections), most: viewerConnections}
	var err error
	if secure == nil {
		err = s.http.Serve(l)
	} else {
		s.http.TLSConfig = secure
		err = s.http.ServeTLS(l, "", "")
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// closeTimeout bounds how long Close waits for viewers to receive what they were sent last.
const closeTimeout = time.Second

// Close ends all streams, and waits for them and for requests in progress up to closeTimeout. It may be called twice.
func (s *Server) Close() error {
	var err error
	s.once.Do(func() {
		s.topics.close() // viewers see how a run that has just ended did
		close(s.closing)
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err = s.http.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
			err = s.http.Close() // a viewer who does not read
		}
	})
	return err
}

// Handler returns the handler of all pages and of REST.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	serve := func(r route, handler http.Handler) {
		if r.method != http.MethodGet {
			handler = s.rights.forWriters(handler)
		}
		mux.Handle(r.method+" "+r.path, handler)
	}
	for _, c := range s.api() {
		serve(c.route, c)
	}
	for _, r := range s.site() {
		serve(r, r.handle)
	}
	return s.rights.guard(mux)
}

// route is a path with what answers it. Methods other than GET change something, and need the right to.
type route struct {
	method, path string
	handle       http.HandlerFunc
}
