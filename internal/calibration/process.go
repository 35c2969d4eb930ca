package calibration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	// askTime bounds how long a process may take to answer.
	askTime = 10 * time.Second
	// endTime bounds how long a process may take to end after its input has ended.
	endTime = time.Second
)

// process is a child that answers questions. The first line of its input is its setup, which it answers with what it
// made of it; it answers each further line with a reading. It ends when its input ends, so it does not outlive its
// parent.
type process struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	say    *json.Encoder
	answer *json.Decoder
	errs   *tail
}

// launch starts a child on the given cores, and waits until it is set up. The child's answer to the setup is stored in
// made. The child is killed when ctx ends. The caller must stop it.
func launch(ctx context.Context, name string, command []string, cores []int, setup, made any) (*process, error) {
	p := &process{name: name, cmd: exec.CommandContext(ctx, command[0], command[1:]...), errs: &tail{}}
	p.cmd.Stderr = p.errs
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := onCores(cores, p.cmd.Start); err != nil {
		return nil, fmt.Errorf("%s: its process cannot be started: %w", name, err)
	}
	p.say, p.answer = json.NewEncoder(p.in), json.NewDecoder(out)
	if err := p.ask(setup, made); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// ask sends a question to the child and stores its answer. After an error the child has ended.
func (p *process) ask(question, answer any) error {
	late := time.AfterFunc(askTime, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	err := p.say.Encode(question)
	if err == nil {
		err = p.answer.Decode(answer)
	}
	if err == nil {
		return nil
	}
	p.stop() // its last output is complete once it has ended
	if said := p.errs.last(); said != "" {
		return fmt.Errorf("the %s has ended: %s", p.name, said)
	}
	return fmt.Errorf("the %s has ended, or did not answer within %v: %w", p.name, askTime, err)
}

// stop ends the child and waits for it. It may be called more than once.
func (p *process) stop() {
	_ = p.in.Close()
	late := time.AfterFunc(endTime, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	_ = p.cmd.Wait() // the child was told to end: how it ended does not matter
}

// tail keeps the last bytes written to it. It is safe for concurrent use.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// longestTail is how many bytes are kept.
const longestTail = 4096

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - longestTail; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

// last returns the last line that was written.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(string(t.text))
	return text[strings.LastIndexByte(text, '\n')+1:]
}
