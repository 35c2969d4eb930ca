package spatecmd

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/process"
)

const longPlan = `name: long
targets: [{name: t, simulator: {decode_step: 1ms}}]
workloads: [{random: {isl: 10, osl: 3}}]
loads: [{concurrency: [2], duration: 1m}]
`

// The address that `spate run --web` prints is that of its page, where the run can be watched and stopped.
// --http-listen serves /metrics beside it.
func TestWebAddress(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte(longPlan), 0o600); err != nil {
		t.Fatal(err)
	}
	metrics := process.FreeAddress(t)
	cmd := exec.CommandContext(t.Context(), "spate", "run", "plan.yaml", "--web", "--http-listen", metrics)
	cmd.Dir = dir
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, url := bufio.NewScanner(errs), ""
	for url == "" && lines.Scan() {
		url = regexp.MustCompile(`http://127\.\S+/runs/\S+`).FindString(lines.Text())
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, r := range []struct {
		method, url string
		want        int
	}{{http.MethodGet, "http://" + metrics + "/metrics", http.StatusOK}, {http.MethodGet, url, http.StatusOK}, {http.MethodPost, url + "/stop", http.StatusSeeOther}} {
		request, err := http.NewRequestWithContext(t.Context(), r.method, r.url, strings.NewReader("immediately=true"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil || answer.StatusCode != r.want {
			t.Errorf("%s %s: %s %v", r.method, r.url, answer.Status, err)
		}
	}
	client.CloseIdleConnections()
	for lines.Scan() { // so that the program can write
	}
	_ = cmd.Wait() // the exit code says it
	if got := cmd.ProcessState.ExitCode(); got != command.ExitStopped {
		t.Errorf("exit code %d", got)
	}
}
