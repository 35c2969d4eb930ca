package kubernetes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/spate-load/spate/internal/engine"
	"github.com/spate-load/spate/internal/reason"
	"github.com/spate-load/spate/internal/words"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const (
	// patience is how long kubectl may take.
	patience = 30 * time.Second
	// mostBytes bounds an answer: 10,000 pods have some 100 MB.
	mostBytes = 256 << 20
)

// arguments returns those of a kubectl in a target's context and namespace.
func arguments(t *spatev1.KubernetesTarget, args ...string) []string {
	if t.GetContext() != "" {
		args = append(args, "--context="+t.GetContext())
	}
	if t.GetNamespace() != "" {
		args = append(args, "--namespace="+t.GetNamespace())
	}
	return args
}

// kubectl runs kubectl with arguments in a target's context and namespace, and returns what it prints.
func kubectl(ctx context.Context, t *spatev1.KubernetesTarget, input io.Reader, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	args = arguments(t, args...)
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	engine.Alone(cmd) // an interrupt of this program must not reach it: what it does is ended, or is about the end
	cmd.Stdin = input
	cmd.WaitDelay = time.Second // kubectl's own helpers may outlive it
	answer, said := limited{most: mostBytes}, limited{most: 64 << 10}
	cmd.Stdout, cmd.Stderr = &answer, &said
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, errors.New("kubectl, which finds pods and starts them, is not installed: install it, or name endpoints and hosts yourself")
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return nil, fmt.Errorf("kubectl did not answer within %v", patience)
	case err != nil:
		return nil, fmt.Errorf("kubectl %s: %s", strings.Join(args, " "),
			reason.Plain(cmp.Or(words.LastLine(said.text.String()), err.Error())))
	}
	return answer.text.Bytes(), nil
}

// get reads what kubectl answers about things of a kind.
func get(ctx context.Context, t *spatev1.KubernetesTarget, to any, args ...string) error {
	text, err := kubectl(ctx, t, nil, append([]string{"get", "--output=json"}, args...)...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("kubectl's answer about %s is not what it should be: %w", args[0], err)
	}
	return nil
}

// limited keeps what is written to it, up to a limit, beyond which writing fails.
type limited struct {
	text bytes.Buffer
	most int
}

func (b *limited) Write(p []byte) (int, error) {
	if b.text.Len()+len(p) > b.most {
		return 0, fmt.Errorf("more than %d bytes", b.most)
	}
	return b.text.Write(p)
}
