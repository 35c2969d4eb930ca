// Command testsummary reads `go test -json` and prints what a person wants to see: go test's own line for each package
// as it comes, the whole output of tests that failed, and at the end every test that did not run and why, because a
// skipped test is easily taken for a passed one. `make test` pipes through it; the exit status is go test's.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
)

// event is one line of go test -json.
type event struct {
	Action, Package, Test, Output string
}

// name of the test in its package; two packages may have tests of the same name.
type name struct{ pkg, test string }

// summary collects what is printed at the end.
type summary struct {
	out     io.Writer
	running map[name]*strings.Builder // output of tests without a verdict yet
	passed  int
	failed  []string
	skipped []string
}

func main() {
	log.SetFlags(0)
	if err := summarise(os.Stdin, os.Stdout); err != nil {
		log.Fatalf("testsummary: %v", err)
	}
}

// summarise reads in to its end.
func summarise(in io.Reader, out io.Writer) error {
	s := summary{out: out, running: make(map[name]*strings.Builder)}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			s.take(line)
		}
		if errors.Is(err, io.EOF) {
			s.end()
			return nil
		}
		if err != nil {
			return fmt.Errorf("read go test's output: %w", err)
		}
	}
}

// take reads one line. A line that is not JSON is printed as it is.
func (s *summary) take(line string) {
	var e event
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		fmt.Fprint(s.out, line)
		return
	}
	n := name{e.Package, e.Test}
	switch {
	case e.Test == "":
		s.ofPackage(e)
	case e.Action == "output":
		s.keep(n, e.Output)
	case e.Action == "pass":
		s.passed++
		delete(s.running, n)
	case e.Action == "fail":
		s.failed = append(s.failed, n.pkg+" "+n.test)
		s.print(n)
	case e.Action == "skip":
		s.skipped = append(s.skipped, n.pkg+" "+n.test+"\n"+s.reason(n))
		delete(s.running, n)
	}
}

// ofPackage prints what go test says about a package, except the bare PASS. If a package failed while tests were still
// running (a panic, a time-out), it also prints their output.
func (s *summary) ofPackage(e event) {
	if e.Output != "" && e.Output != "PASS\n" {
		fmt.Fprint(s.out, e.Output)
	}
	if e.Action != "fail" {
		return
	}
	for n := range s.running {
		if n.pkg == e.Package {
			s.failed = append(s.failed, n.pkg+" "+n.test)
			s.print(n)
		}
	}
}

func (s *summary) keep(n name, output string) {
	if s.running[n] == nil {
		s.running[n] = new(strings.Builder)
	}
	s.running[n].WriteString(output)
}

func (s *summary) print(n name) {
	if output := s.running[n]; output != nil {
		fmt.Fprint(s.out, output.String())
	}
	delete(s.running, n)
}

// reason returns what the test printed, without go test's own lines.
func (s *summary) reason(n name) string {
	var said []string
	if output := s.running[n]; output != nil {
		for line := range strings.Lines(output.String()) {
			line = strings.TrimSpace(line)
			if !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
				said = append(said, "        "+line)
			}
		}
	}
	return strings.Join(said, "\n")
}

func (s *summary) end() {
	fmt.Fprintf(s.out, "\n%d tests and subtests passed, %d failed, %d did not run.\n", s.passed, len(s.failed),
		len(s.skipped))
	for _, test := range s.failed {
		fmt.Fprintln(s.out, "FAILED:", test)
	}
	for _, test := range s.skipped {
		fmt.Fprintln(s.out, "DID NOT RUN:", test)
	}
}
