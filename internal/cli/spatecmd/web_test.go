package spatecmd

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/spate-load/spate/internal/cli/command"
)

const longPlan = `name: long
targets: [{name: t, simulator: {decode_step: 1ms}}]
workloads: [{random: {isl: 10, osl: 3}}]
loads: [{concurrency: [2], duration: 10m}]
`

// The address that `spate run --web` prints is that of its run: it can be read and stopped there.
func TestWebAddress(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte(longPlan), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "spate", "run", "plan.yaml", "--web")
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
		url = regexp.MustCompile(`http://127\.\S+/api/\S+`).FindString(lines.Text())
	}
	for _, r := range [][2]string{{http.MethodGet, url}, {http.MethodPost, url + "/stop?immediately=true"}} {
		request, err := http.NewRequestWithContext(t.Context(), r[0], r[1], http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("%s %s: %s %v", r[0], r[1], answer.Status, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	for lines.Scan() { // so that the program can write
	}
	_ = cmd.Wait() // the exit code says it
	if got := cmd.ProcessState.ExitCode(); got != command.ExitStopped {
		t.Errorf("exit code %d", got)
	}
}
