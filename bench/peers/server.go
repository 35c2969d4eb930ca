package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// server is a running simulator.
type server struct {
	url   string
	truth string // the path of its truth file
	cmd   *exec.Cmd
	said  *tail
}

// startServer starts the simulator on one core and returns when it answers. Its truth file is in dir.
func startServer(ctx context.Context, spate string, core int, l Load, dir string) (*server, error) {
	addr, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	s := &server{url: "http://" + addr, truth: filepath.Join(dir, "truth.jsonl"), said: &tail{}}
	//nolint:noctx // stop ends it in order
	s.cmd = exec.Command("taskset", append([]string{"-c", fmt.Sprint(core), spate}, serverArgs(l, addr, s.truth)...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.said, s.said
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("the server: %w", err)
	}
	for tries := 0; ; tries++ {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			return s, conn.Close()
		}
		if tries == 200 || ctx.Err() != nil {
			s.stop()
			return nil, fmt.Errorf("the server does not answer: %w; it said: %s", err, s.said.last(3))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// serverArgs returns the simulator's arguments for a load.
func serverArgs(l Load, addr, truth string) []string {
	return []string{"simulate", "--listen", addr, "--model", "m", "--ttft", l.TTFT.String(), "--itl",
		l.ITL.String(), fmt.Sprintf("--ticks=%t", l.Shape != Spread),
		"--truth-file", truth, "--truth-tokens"}
}

// freeAddress returns a loopback address on which nothing is listening.
func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// stop ends the server and waits for it.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(5*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	_ = s.cmd.Wait() // how it ends does not matter: the truth file is written line by line
}

// readTruthFile reads the server's truth.
func (s *server) readTruthFile(l Load) (t Truth, err error) {
	file, err := os.Open(s.truth)
	if err != nil {
		return Truth{}, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return readTruth(file, l)
}
