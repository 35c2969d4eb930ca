package runcmd

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
)

// sshFailed is the exit code of ssh if its connection broke. Others are the agent's.
const sshFailed = 255

// sshHost is a machine that ssh reaches.
type sshHost struct {
	login        string
	dir, program string // there, as it says
}

// ssh returns an ssh to a host that asks nothing and has no terminal. options are its own.
func ssh(login string, options ...string) []string {
	return slices.Concat([]string{"ssh", "-T", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=10",
		"-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"}, options, []string{"--", login})
}

// plainWord matches what means nothing to shells.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9/:.,_-]+$`)

// quoted returns a command's words for the shell of a host.
func quoted(argv ...string) []string {
	return lists.Each(argv, func(word string) string {
		if !plainWord.MatchString(word) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		return word
	})
}

// command returns an ssh with a script for sh, without single quotes.
func (s *sshHost) command(ctx context.Context, script string, options ...string) *exec.Cmd {
	return detached(ctx, append(ssh(s.login, options...), "sh -c '"+script+"'")...)
}

// ask runs a script on the host and returns what it printed. Writers get what it writes to standard error, as it comes.
func (s *sshHost) ask(ctx context.Context, stdin io.Reader, script string, told ...io.Writer) (string, error) {
	cmd := s.command(ctx, script, "-C")
	var out, problems bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, io.MultiWriter(append(told, &problems)...)
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", errors.New("it needs the program ssh, which is not in PATH")
		}
		said := cmp.Or(words.LastLine(problems.String()), words.LastLine(out.String()), err.Error())
		return "", errors.New(s.withCure(strings.TrimPrefix(said, "spate: ")))
	}
	return out.String(), nil
}

// refusal matches how ssh ends where it would have asked for a password or about the host's key.
var refusal = regexp.MustCompile(`: Permission denied \([a-z,-]+\)\.$|^Host key verification failed\.$`)

// withCure returns what ssh said last and, if it would have asked something, what to do.
func (s *sshHost) withCure(said string) string {
	if refusal.MatchString(said) {
		said += " `ssh " + s.login + "` must work without a question"
	}
	return said
}

// ownProgram opens this program and reads it once, for all hosts. It stays open.
var ownProgram = sync.OnceValues(func() (own struct {
	*os.File
	size int64
	hash string
}, err error,
) {
	path, err := os.Executable()
	if err == nil {
		own.File, err = os.Open(path)
	}
	if err != nil {
		return own, err
	}
	sum := sha256.New()
	own.size, err = io.Copy(sum, own)
	own.hash = hex.EncodeToString(sum.Sum(nil)[:8])
	return own, err
})

// prepare finds out what the host is, and copies the program to it unless it is there.
func (s *sshHost) prepare(ctx context.Context, r *remoteHosts, h *remoteHost) error {
	own, err := ownProgram()
	if err != nil {
		return err
	}
	out, err := s.ask(ctx, nil, `d="${XDG_CACHE_HOME:-$HOME/.cache}/spate"; umask 077; mkdir -p "$d" || exit 1; echo `+r.id+`; `+
		`uname -sm; echo "$d"; spate --version 2>/dev/null || echo none; `+
		`if "$d/spate-`+own.hash+`" --version >/dev/null 2>&1; then echo there; else echo missing; fi`)
	if err != nil {
		return err
	}
	_, said, _ := strings.Cut("\n"+out, "\n"+r.id+"\n") // a login script may have printed something
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if len(lines) != 4 {
		return fmt.Errorf("the host does not answer as a Unix system: %q", out)
	}
	s.dir, s.program, h.program = lines[1], lines[1]+"/spate-"+own.hash, "is there"
	switch {
	case strings.ContainsAny(s.dir, forShells):
		return fmt.Errorf("%q cannot be the directory of the program: set XDG_CACHE_HOME there", s.dir)
	case platforms[lines[0]] != runtime.GOOS+"/"+runtime.GOARCH && strings.HasSuffix(lines[2], " "+r.version):
		s.program, h.program = "spate", "its own"
	case platforms[lines[0]] != runtime.GOOS+"/"+runtime.GOARCH:
		return fmt.Errorf("the host is %s and this program is for %s/%s: install spate %s there, in PATH",
			lines[0], runtime.GOOS, runtime.GOARCH, r.version)
	case lines[3] == "missing":
		h.program = "copied"
		return s.copy(ctx, r, h, io.NewSectionReader(own, 0, own.size))
	}
	return nil
}

// copy copies the program to the host.
func (s *sshHost) copy(ctx context.Context, r *remoteHosts, h *remoteHost, program *io.SectionReader) error {
	fmt.Fprintf(r.logs, "Copying the program to %s: %d MB\n", h.login, program.Size()>>20)
	// A connection that breaks ends the program too early, and looks like its end.
	_, err := s.ask(ctx, program, `f="`+s.program+`"; t="$f.`+r.id+"-"+h.name+
		`"; cat >"$t" && test $(wc -c <"$t") -eq `+strconv.FormatInt(program.Size(), 10)+` && chmod 700 "$t" && mv "$t" "$f" && `+
		`"$f" --version >/dev/null || { rm -f "$t"; exit 1; }`)
	return err
}

// platforms are Go's names of what uname prints.
var platforms = map[string]string{
	"Linux x86_64": "linux/amd64", "Linux aarch64": "linux/arm64", "Darwin x86_64": "darwin/amd64", "Darwin arm64": "darwin/arm64",
}

// open starts the agent, which a line on its input ends, and which reaches the coordinator through a socket on its host
// that only its user can open. A connection that broke is made again beside it.
func (s *sshHost) open(ctx context.Context, r *remoteHosts, h *remoteHost, again bool) (said string, ended bool) {
	socket := s.dir + "/" + r.id + "-" + h.name
	script := `s="` + socket + `"; "` + s.program + `" "` + strings.Join(r.arguments(h, "--coordinator=unix:"+socket, h.name, remoteAlone), `" "`) +
		`"; e=$?; rm -f "$s"; exit $e`
	if again {
		if _, err := s.ask(r.wanted, nil, `rm -f "`+socket+`"`); err != nil {
			return err.Error(), false
		}
		ctx, script = r.wanted, "cat >/dev/null" // it ends with this program, whatever ends that
	}
	cmd := s.command(ctx, script, "-o", "ExitOnForwardFailure=yes", "-R", socket+":"+r.coordinator())
	problems := &bytes.Buffer{}
	cmd.Stderr = problems
	stdin, err := cmd.StdinPipe()
	if err == nil {
		defer context.AfterFunc(r.wanted, func() { _, _ = io.WriteString(stdin, "end\n") })() // it may have ended
		err = cmd.Run()
	}
	exit, ran := errors.AsType[*exec.ExitError](err)
	return s.withCure(cmp.Or(words.LastLine(problems.String()), fmt.Sprint(err))),
		!again && !r.up.Load() || !ran || exit.Exited() && exit.ExitCode() != sshFailed
}

// hostLines writes the lines of a host's program to logs, with the host's name.
type hostLines struct {
	logs io.Writer
	host string
	rest []byte // of a line that has not ended
}

// Write writes the lines that have ended. It never fails: logs that cannot be written are no reason to end the program.
func (l *hostLines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for line := range bytes.Lines(l.rest) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		_, _ = fmt.Fprintf(l.logs, "%s: %s", l.host, line)
		l.rest = l.rest[len(line):]
	}
	return len(p), nil
}

// OnEach runs this program with arguments on each host of values of --on, all at once, and tells what it printed or why
// it failed. What it logs goes to logs as it comes. It copies the program as run does.
func OnEach(
	ctx context.Context, on []string, version string, logs io.Writer, args []string,
	tell func(host, region, printed string, err error),
) error {
	hosts, err := parseHosts(on)
	if err != nil {
		return command.BadInput(err)
	}
	r := &remoteHosts{version: version, logs: logs, id: newID()}
	printed, failed := make([]string, len(hosts)), make([]error, len(hosts))
	var all sync.WaitGroup
	for i, h := range hosts {
		s, is := h.by.(*sshHost)
		if !is {
			return command.BadInputf("--on %s: only hosts of ssh can be calibrated: pods and tasks are gone with their run", h.login)
		}
		all.Go(func() {
			if failed[i] = s.prepare(ctx, r, h); failed[i] == nil {
				printed[i], failed[i] = s.ask(ctx, nil, `"`+s.program+`" `+strings.Join(args, " "),
					&hostLines{logs: logs, host: h.login})
			}
		})
	}
	all.Wait()
	for i, h := range hosts {
		tell(h.login, h.region, printed[i], failed[i])
	}
	return nil
}

// close does nothing: the agent has removed what it left.
func (s *sshHost) close(*remoteHosts) {}
