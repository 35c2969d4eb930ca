package resultscmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/report"
)

// verifyFlags are the flags of `spate verify`.
type verifyFlags struct {
	Again  againFlags `group:"Run again"`
	Format string     `flag:"format" default:"text" oneof:"text, json" help:"format: text, json"`

	version string
	run     func() *cobra.Command // makes `spate run`
}

// NewVerify makes `spate verify`. version is the program's, and run makes its `spate run`.
func NewVerify(version string, run func() *cobra.Command) *cobra.Command {
	f := &verifyFlags{version: version, run: run}
	return manual.New("verify", cobra.ExactArgs(1), f.verify, f)
}

// verification is what was found about a run.
type verification struct {
	Run      string `json:"run"`
	Verified bool   `json:"verified"`
	// Answer is all of it in a sentence.
	Answer string       `json:"answer"`
	Checks []checkedRun `json:"checks"`
	// Again is how the stages that ran again differ from the run. Null: none did.
	Again *compare.Comparison `json:"again"`

	code   int // exit code
	dir    string
	ledger *ledger.Ledger
	record *spatev1.RunRecord
	plan   *plans.Plan
	result *results.Result
	stages []*spatev1.StageRecord
}

// checkedRun is one check: fits is "yes", "no" or "n/a".
type checkedRun struct {
	Check string `json:"check"`
	Fits  string `json:"fits"`
	Found string `json:"found"`
}

// add adds a check. wrong says what does not fit; empty: found is as it should be.
func (v *verification) add(check string, wrong []string, found string, args ...any) {
	c := checkedRun{check, "yes", fmt.Sprintf(found, args...)}
	if len(wrong) > 0 {
		const most = 5
		if more := len(wrong) - most; more > 0 {
			wrong = append(slices.Clone(wrong[:most]), fmt.Sprintf("and %d more", more))
		}
		c.Fits, c.Found, v.code = "no", words.Printable(strings.Join(wrong, "; ")), command.ExitFailed
		v.Answer += fmt.Sprintf(" %s: %s.", check, c.Found)
	}
	v.Checks = append(v.Checks, c)
}

func (f *verifyFlags) verify(cmd *cobra.Command, args []string) error {
	if err := f.Again.check(); err != nil {
		return command.BadInput(err)
	}
	made, err := os.MkdirTemp("", "spate-verify-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(made)
	v := &verification{Run: args[0], dir: newest(args[0])}
	read := func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(v.dir, name)) }
	if strings.Contains(v.dir, "://") {
		base := runPage.ReplaceAllString(strings.TrimSuffix(v.dir, "/"), "$1/api/v1/runs/$2/files")
		read = func(name string) ([]byte, error) { return download(cmd.Context(), base+"/"+name) }
		if v.dir, err = fetched(read); err != nil {
			return command.BadInput(err)
		}
		defer os.RemoveAll(v.dir)
	}
	if err := f.all(cmd, v, made, read); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if v.Verified = v.code == 0; v.Verified {
		v.Answer = fmt.Sprintf("VERIFIED: %s is what its plan, its ledger and this program give: %s.%s", v.Run,
			words.Count(uint64(len(v.stages)), "stage"), v.Answer)
	} else {
		v.Answer = fmt.Sprintf("NOT VERIFIED: %s:%s", v.Run, v.Answer)
	}
	if f.Format == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		err = e.Encode(v)
	} else {
		t := table.New(table.Words("Check", "Fits", "Found"))
		for _, c := range v.Checks {
			t.Add(c.Check, c.Fits, c.Found)
		}
		fmt.Fprintln(out, v.Answer+"\n")
		err = t.Text(out, terminal.Width(out))
	}
	if err == nil && !v.Verified {
		err = command.Exit(v.code, command.ErrPrinted)
	}
	return err
}

// runPage matches the page of a run on a coordinator.
var runPage = regexp.MustCompile(`^(https?://[^/]+)/runs/([^/]+)$`)

// download returns a file of a server. The error is fs.ErrNotExist if the server has none.
func download(ctx context.Context, url string) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusNotFound {
		err = fs.ErrNotExist
	} else if answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	return io.ReadAll(answer.Body)
}

// fetched makes a directory with the files that all others are made of.
func fetched(read func(string) ([]byte, error)) (string, error) {
	dir, err := os.MkdirTemp("", "spate-verify-")
	for _, name := range []string{ledger.File, report.BaselineFile} {
		data, missing := read(name)
		if missing != nil && (name == ledger.File || !errors.Is(missing, fs.ErrNotExist)) {
			return "", errors.Join(missing, os.RemoveAll(dir))
		} else if missing == nil {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), data, 0o600))
		}
	}
	return dir, err
}

// all makes all checks of a run directory, whose files read returns. made is a directory for those that it should have.
func (f *verifyFlags) all(
	cmd *cobra.Command, v *verification, made string, read func(string) ([]byte, error),
) (err error) {
	v.ledger, err = ledger.OpenReadOnly(filepath.Join(v.dir, ledger.File))
	if damage, is := errors.AsType[*ledger.DamageError](err); is {
		v.add("ledger", damage.Lost, "")
		return nil
	}
	if err != nil {
		return unreadable(v.dir, err)
	}
	defer func() { err = errors.Join(err, v.ledger.Close()) }()
	v.record, err = v.ledger.Run()
	if err == nil {
		v.stages, err = v.ledger.Stages()
	}
	if err != nil {
		return err
	}
	v.Run = v.record.GetRunId()
	v.add("ledger", v.record.GetDamage(), "every record has its checksum, and none is missing")
	if err := v.files(made, read, f.version); err != nil {
		return err
	}
	if v.plans(); v.plan == nil {
		return nil
	}
	if err := v.requests(); err != nil || v.code != 0 || !f.Again.on() {
		return err
	}
	return f.again(cmd, v)
}

// files checks the derived files, and the verdicts in them.
func (v *verification) files(made string, read func(string) ([]byte, error), version string) (err error) {
	if v.result, err = report.Write(v.dir, report.Options{Into: made}); err != nil {
		return err
	}
	files, err := os.ReadDir(made)
	var same, differ []string
	for _, f := range files {
		want, unmade := os.ReadFile(filepath.Join(made, f.Name()))
		got, missing := read(f.Name())
		switch {
		case errors.Is(missing, fs.ErrNotExist):
		case unmade != nil || missing != nil:
			return errors.Join(unmade, missing)
		case bytes.Equal(got, want):
			same = append(same, f.Name())
		default:
			differ = append(differ, f.Name()+" "+firstDifference(got, want))
		}
	}
	if len(differ) > 0 && v.record.GetVersion() != version {
		differ = append(differ, fmt.Sprintf("Spate %s ran it, and this is %s: verify it with that version",
			v.record.GetVersion(), version))
	} else if len(differ) > 0 {
		differ = append(differ, "it was changed after the run, or written with other flags; spate report writes it as it was")
	}
	v.add("files", differ, "as the ledger gives them: %s", cmp.Or(strings.Join(same, ", "), "none is there"))
	doubts := v.result.Run.Missing
	for _, s := range v.result.Stages {
		if s.Trust.Verdict == trust.Invalid {
			doubts = append(doubts, fmt.Sprintf("stage %d is INVALID: its numbers claim nothing", s.Index+1))
		}
	}
	v.add("verdicts", doubts, "no stage is INVALID or incomplete, by the checks of this version")
	return err
}

// firstDifference says in which line two files differ, if they have lines.
func firstDifference(got, want []byte) string {
	if !utf8.Valid(got) {
		return "is not as the ledger gives it"
	}
	theirs, ours := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(theirs), len(ours)) {
		if theirs[i] != ours[i] {
			return fmt.Sprintf("has in line %d %q, where the ledger gives %q", i+1, words.Cut(strings.TrimSpace(theirs[i]), 60),
				words.Cut(strings.TrimSpace(ours[i]), 60))
		}
	}
	return fmt.Sprintf("has %d lines, where the ledger gives %d", len(theirs), len(ours))
}

// plans checks that the plan gives the stages that ran.
func (v *verification) plans() {
	plan, err := plans.Load("plan.yaml", v.record.GetPlanYaml(), plans.Options{Discover: true})
	if err != nil {
		v.add("plan", []string{"this version cannot read it: " + err.Error()}, "")
		return
	}
	v.plan = plan
	key := func(s *spatev1.Stage) string {
		return fmt.Sprintf("%s\n%s\n%d", s.GetTarget().GetName(), s.GetWorkload().GetName(), s.GetSeed())
	}
	planned, wrong := map[string]*spatev1.Stage{}, []string(nil)
	for _, s := range plan.Outline() {
		planned[key(s)] = s
	}
	for _, rec := range v.stages {
		ran := rec.GetStage()
		s, replay := planned[key(ran)], ran.GetLoad().GetReplaySpeed() > 0 // which ends with its trace
		if ran.GetProbe() == nil && (!proto.Equal(s.GetWorkload(), ran.GetWorkload()) ||
			!replay && !proto.Equal(s.GetLoad(), ran.GetLoad())) {
			wrong = append(wrong, fmt.Sprintf("stage %d is not one of it", ran.GetIndex()+1))
		}
	}
	v.add("plan", wrong, "it gives the %s that ran", words.Count(uint64(len(v.stages)), "stage"))
}

// sentRequests counts the requests of rows that are as the plan gives them, and says which are not.
type sentRequests struct {
	bodies, times, answers int // answers: bodies that have answers of the server
	wrong                  []string
}

// requests checks that the requests of all rows are those of plan and seed, and were due at the times of the schedule.
func (v *verification) requests() error {
	var sent sentRequests
	var unmade []string
	for _, rec := range v.stages {
		s, err := ready.Rebuild(v.record.GetRunId(), rec, command.DatasetDir())
		if err != nil {
			unmade = words.AppendOnce(unmade, err.Error())
			continue
		}
		due := s.Due()
		err = v.ledger.Snapshots(rec.GetStage().GetIndex(), func(snapshot *spatev1.Snapshot) error {
			if !merge.InResult(rec, snapshot) {
				return nil
			}
			for _, r := range snapshot.GetRecords() {
				if err := sent.add(s, due, r); err != nil {
					return err
				}
			}
			return nil
		})
		s.Close()
		if err != nil {
			return err
		}
	}
	if len(sent.wrong) == 0 && sent.bodies+sent.answers == 0 {
		unmade = append(unmade, "the run kept no rows")
	}
	if len(unmade) > 0 {
		v.Checks = append(v.Checks, checkedRun{"requests", "n/a", strings.Join(unmade, "; ")})
	}
	if sent.bodies+sent.answers+len(sent.wrong) > 0 {
		v.add("requests", sent.wrong, "%d have the body of plan and seed, %d were due by its schedule; %d have answers in "+
			"their bodies, and are not checked", sent.bodies, sent.times, sent.answers)
	}
	return nil
}

// add checks a row of a stage, whose arrivals are due at these times. The error is that of making its request.
func (c *sentRequests) add(s *ready.Stage, due map[uint64]time.Duration, r *spatev1.RequestRecord) error {
	name := fmt.Sprintf("stage %d, request %d", s.Assigned.GetIndex()+1, r.GetIndex())
	if due != nil && r.GetTurn() == 0 {
		at, scheduled := due[r.GetIndex()]
		if c.times++; !scheduled || at.Nanoseconds() != r.GetScheduledNs() {
			c.wrong = append(c.wrong, fmt.Sprintf("%s: due at %v, and by the schedule at %v", name,
				time.Duration(r.GetScheduledNs()), at))
		}
	}
	body, ask, err := s.Body(r.GetIndex(), int(r.GetTurn()))
	if ask.Previous > 0 {
		c.answers++
		return nil
	}
	h := fnv.New64a()
	_, _ = h.Write(body) // never fails
	if c.bodies++; h.Sum64() != r.GetBodyHash() {
		c.wrong = append(c.wrong, name+": its body is not that of plan and seed")
	}
	return err
}
