package resultscmd

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/compare/runfiles"
	"github.com/spate-load/spate/compare/show"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/report"
)

// verifyFlags are the flags of `spate verify`.
type verifyFlags struct {
	Again     bool     `flag:"again" typed:"only" help:"run a random tenth of the stages again, on the plan's targets"`
	Target    []string `flag:"target" typed:"only" help:"the same at this base <URL>, or <NAME=URL> if there are several targets"`
	Tolerance string   `flag:"tolerance" default:"1.5%" help:"largest difference with which a claim holds"`
	Seed      uint64   `flag:"seed" help:"of the choice of stages (default: random)"`
	Format    string   `flag:"format" default:"text" oneof:"text, json" help:"format: text, json"`
}

// verification is a run that is verified, with what was found.
type verification struct {
	verifyFlags
	tolerance float64

	cmd *cobra.Command
	run func() *cobra.Command // makes `spate run`

	dir, base string // of the run: its directory, and the URL of its files. Empty: they are in the directory
	temporary string // directory that is removed at the end
	ledger    *ledger.Ledger
	record    *spatev1.RunRecord
	stages    []*spatev1.StageRecord
	plan      *plans.Plan
	result    *results.Result

	checks *table.Table
	wrong  string // what does not fit
	code   int    // exit code
	over   bool   // no other check can be made
}

// NewVerify makes `spate verify`. version is the program's, and run makes its `spate run`.
func NewVerify(version string, run func() *cobra.Command) *cobra.Command {
	f := &verifyFlags{}
	return manual.New("verify", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		tolerance, err := compare.Tolerance(f.Tolerance)
		if err != nil {
			return command.BadInputf("--tolerance %w", err)
		}
		v := &verification{verifyFlags: *f, tolerance: tolerance, cmd: cmd, run: run, dir: runfiles.Named(args[0])}
		return v.verify(version)
	}, f)
}

// runPage matches the page of a run on a coordinator.
var runPage = regexp.MustCompile(`^(https?://[^/]+)/runs/([^/]+)$`)

// verify opens the run, makes all checks, and says what was found. version is the program's.
func (v *verification) verify(version string) (err error) {
	if v.temporary, err = os.MkdirTemp("", "spate-verify-"); err != nil {
		return err
	}
	defer os.RemoveAll(v.temporary)
	name := v.dir
	if strings.Contains(name, "://") {
		v.base = runPage.ReplaceAllString(strings.TrimSuffix(name, "/"), "$1/api/v1/runs/$2/files")
		v.dir = v.temporary
		for _, name := range []string{ledger.File, report.BaselineFile} {
			if err := v.fetch(name); err != nil {
				return command.BadInput(err)
			}
		}
	}
	v.ledger, err = ledger.OpenReadOnly(filepath.Join(v.dir, ledger.File))
	damage, damaged := errors.AsType[*ledger.DamageError](err)
	if err != nil && !damaged {
		return unreadable(name, err)
	}
	if !damaged {
		defer v.ledger.Close() // opened for reading only
		if v.record, err = v.ledger.Run(); err == nil {
			v.stages, err = v.ledger.Stages()
		}
		if err != nil {
			return err
		}
		name = v.record.GetRunId()
	}
	v.checks = table.New([]table.Column{{Key: "check", Header: "Check", Words: true},
		{Key: "fits", Header: "Fits", Words: true}, {Key: "found", Header: "Found", Words: true}})
	for _, c := range []struct {
		name  string
		check func() (found string, wrong []string, err error) // nothing found, nothing wrong: it was not made
	}{
		{"ledger", func() (string, []string, error) {
			if v.over = damaged; damaged {
				return "", damage.Lost, nil
			}
			return "every record has its checksum, and none is missing", nil, nil
		}},
		{"files", func() (string, []string, error) { return v.files(version) }},
		{"verdicts", v.verdicts}, {"plan", v.planned}, {"requests", v.requests}, {"again", v.again},
	} {
		found, wrong, err := c.check()
		if err != nil {
			return err
		}
		if v.add(c.name, found, wrong); v.over {
			break
		}
	}
	return v.show(name)
}

// add adds the row of a check.
func (v *verification) add(check, found string, wrong []string) {
	if len(wrong) > 0 {
		const most = 5
		if more := len(wrong) - most; more > 0 {
			wrong = append(slices.Clone(wrong[:most]), fmt.Sprintf("and %d more", more))
		}
		found = words.Printable(strings.Join(wrong, "; "))
		v.wrong += fmt.Sprintf(" %s: %s.", check, found)
		v.code = cmp.Or(v.code, command.ExitFailed)
		v.checks.Add(check, "no", found)
	} else if found != "" {
		v.checks.Add(check, "yes", found)
	}
}

// show prints what was found.
func (v *verification) show(name string) (err error) {
	out := v.cmd.OutOrStdout()
	if v.Format == "text" {
		answer := fmt.Sprintf("NOT VERIFIED: %s:%s", name, v.wrong)
		if v.code == 0 {
			answer = fmt.Sprintf("VERIFIED: %s is what its plan, its ledger and this program give: %s.", name,
				words.Count(uint64(len(v.stages)), "stage"))
		}
		fmt.Fprintln(out, answer+"\n")
	}
	if err = v.checks.In(v.Format, out, terminal.Width(out)); err == nil && v.code != 0 {
		err = command.Exit(v.code, command.ErrPrinted)
	}
	return err
}

// fetch copies a file of the run to its directory, if the run has a URL and the file is there.
func (v *verification) fetch(name string) error {
	if v.base == "" {
		return nil
	}
	q, err := http.NewRequestWithContext(v.cmd.Context(), http.MethodGet, v.base+"/"+name, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusNotFound:
		return nil
	case http.StatusOK:
		return files.ReplaceBy(filepath.Join(v.dir, name), func(w io.Writer) error {
			_, err := io.Copy(w, answer.Body)
			return err
		})
	}
	return fmt.Errorf("%s: %s", q.URL, answer.Status)
}

// files checks the derived files.
func (v *verification) files(version string) (string, []string, error) {
	var same, differ []string
	check := func(name string, write func(io.Writer) error) error {
		var want bytes.Buffer
		if err := errors.Join(write(&want), v.fetch(name)); err != nil {
			return err
		}
		got, err := os.ReadFile(filepath.Join(v.dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case bytes.Equal(got, want.Bytes()):
			same = append(same, name)
		default:
			differ = append(differ, name+" "+firstDifference(got, want.Bytes()))
		}
		return err
	}
	var err error
	if v.result, err = report.Write(v.dir, report.Options{Each: check}); err != nil {
		return "", nil, err
	}
	slices.Sort(same)
	slices.Sort(differ)
	if len(differ) > 0 && v.record.GetVersion() != version {
		differ = append(differ, fmt.Sprintf("Spate %s ran it, and this is %s: verify it with that version",
			v.record.GetVersion(), version))
	} else if len(differ) > 0 {
		differ = append(differ, "it was changed after the run, or written with other flags; spate report writes it as it was")
	}
	return "as the ledger gives them: " + cmp.Or(strings.Join(same, ", "), "none is there"), differ, nil
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

// verdicts checks that all stages can be believed.
func (v *verification) verdicts() (string, []string, error) {
	doubts := v.result.Run.Missing
	for _, s := range v.result.Stages {
		if s.Trust.Verdict == trust.Invalid {
			doubts = append(doubts, fmt.Sprintf("stage %d is INVALID: its numbers claim nothing", s.Index+1))
		}
	}
	return "no stage is INVALID or incomplete, by the checks of this version", doubts, nil
}

// planned checks that the plan gives the stages that ran.
func (v *verification) planned() (_ string, wrong []string, err error) {
	v.plan, err = plans.Load("plan.yaml", v.record.GetPlanYaml(), plans.Options{Discover: true})
	if v.over = err != nil; v.over {
		return "", []string{"this version cannot read it: " + err.Error()}, nil
	}
	outline := v.plan.Outline()
	for _, rec := range v.stages {
		ran := rec.GetStage()
		fits := func(s *spatev1.Stage) bool {
			return s.GetSeed() == ran.GetSeed() && s.GetTarget().GetName() == ran.GetTarget().GetName() &&
				proto.Equal(s.GetWorkload(), ran.GetWorkload()) &&
				// A replay ends with its trace.
				(ran.GetLoad().GetReplaySpeed() > 0 || proto.Equal(s.GetLoad(), ran.GetLoad()))
		}
		if ran.GetProbe() == nil && !slices.ContainsFunc(outline, fits) {
			wrong = append(wrong, fmt.Sprintf("stage %d is not one of it", ran.GetIndex()+1))
		}
	}
	return fmt.Sprintf("it gives the %s that ran", words.Count(uint64(len(v.stages)), "stage")), wrong, nil
}

// requests checks that the requests of all rows are those of plan and seed, and were due at the times of the schedule.
func (v *verification) requests() (string, []string, error) {
	var bodies, times, answers int
	var wrong, unmade []string
	for _, rec := range v.stages {
		s, err := ready.Rebuild(v.record.GetRunId(), rec, command.DatasetDir())
		if err != nil {
			unmade = words.AppendOnce(unmade, err.Error())
			continue
		}
		due := s.Due()
		check := func(r *spatev1.RequestRecord) error {
			name := fmt.Sprintf("stage %d, request %d", s.Assigned.GetIndex()+1, r.GetIndex())
			if due != nil && r.GetTurn() == 0 {
				at, scheduled := due[r.GetIndex()]
				if times++; !scheduled || at.Nanoseconds() != r.GetScheduledNs() {
					wrong = append(wrong, fmt.Sprintf("%s: due at %v, and by the schedule at %v", name,
						time.Duration(r.GetScheduledNs()), at))
				}
			}
			hash, known, err := s.BodyHash(r.GetIndex(), int(r.GetTurn()))
			if !known {
				answers++
			} else if bodies++; hash != r.GetBodyHash() {
				wrong = append(wrong, name+": its body is not that of plan and seed")
			}
			return err
		}
		err = v.ledger.Rows(rec.GetStage().GetIndex(), func(of *spatev1.Snapshot, rows [][]byte) (err error) {
			for i := 0; i < len(rows) && merge.InResult(rec, of); i++ {
				r := &spatev1.RequestRecord{}
				err = errors.Join(err, proto.Unmarshal(rows[i], r), check(r))
			}
			return err
		})
		s.Close()
		if err != nil {
			return "", nil, err
		}
	}
	if len(wrong)+bodies+answers == 0 {
		unmade = append(unmade, "the run kept no rows")
	}
	if len(unmade) > 0 {
		v.checks.Add("requests", "n/a", strings.Join(unmade, "; "))
	}
	if bodies+answers == 0 {
		return "", wrong, nil
	}
	return fmt.Sprintf("%d have the body of plan and seed, %d were due by its schedule; %d have answers in their bodies, "+
		"and are not checked", bodies, times, answers), wrong, nil
}

// again runs some stages again, and checks whether what the run claims of them holds.
func (v *verification) again() (string, []string, error) {
	if v.code != 0 || !v.Again && len(v.Target) == 0 {
		return "", nil, nil
	}
	v.Seed = cmp.Or(v.Seed, rand.Uint64N(1e6)+1)
	changes, part, err := v.choose()
	if err != nil {
		return "", nil, command.BadInput(err)
	}
	var opened opener
	defer opened.close()
	before, err := opened.open(v.cmd.Context(), v.dir)
	if err != nil {
		return "", nil, err
	}
	now := compare.Side{Name: "now"}
	var c *compare.Comparison
	for round := 1; round <= compare.MostRounds && (round <= compare.FewestRounds || c.Sides[0].Open()); round++ {
		fmt.Fprintf(v.cmd.ErrOrStderr(), "Seed %d: %s again, round %d\n", v.Seed, part, round)
		to := filepath.Join(v.temporary, fmt.Sprintf("%s-again-%d", v.record.GetRunId(), round))
		run := v.run()
		run.SetArgs(append([]string{"-", "--out", to, "--fail-on", "never", "--no-progress"}, changes...))
		run.SetIn(bytes.NewReader(v.record.GetPlanYaml()))
		run.SetOut(io.Discard)
		run.SetErr(v.cmd.ErrOrStderr())
		run.SilenceErrors, run.SilenceUsage = true, true
		if err := run.ExecuteContext(v.cmd.Context()); err != nil && command.ExitCode(err) != command.ExitMissed {
			return "", nil, fmt.Errorf("the stages did not run again: %w", err)
		}
		one, err := opened.open(v.cmd.Context(), to)
		if err != nil {
			return "", nil, err
		}
		now.Runs = append(now.Runs, &one.Run)
		c, err = compare.Of([]compare.Side{{Name: v.record.GetRunId(), Runs: []*compare.Run{&before.Run}}, now},
			compare.Options{Tolerance: v.tolerance, Again: true})
		if err != nil {
			return "", nil, err
		}
	}
	holds, wrong := v.claims(&c.Sides[0])
	return fmt.Sprintf("With seed %d, the claim holds: %s", v.Seed, strings.Join(holds, "; ")), wrong, nil
}

// claims returns what the run claims of the stages that ran again and holds, and what does not.
func (v *verification) claims(against *compare.Against) (holds, wrong []string) {
	for s := range lists.Refs(against.Stages) {
		by := s.Claim()
		if by == nil {
			wrong = append(wrong, show.StageName(s)+": it has no number to compare")
			continue
		}
		text := fmt.Sprintf("%s: %s %s", show.StageName(s), by.Metric, show.Change(by))
		switch by.Outcome {
		case compare.Same:
			holds = append(holds, text)
		case compare.Worse, compare.Better:
			v.code = command.ExitMissed
			wrong = append(wrong, fmt.Sprintf("%s: the target is %s than the run claims", text, by.Outcome))
		default:
			wrong = append(wrong, text+": chance leaves open whether the claim holds: give a larger --tolerance")
		}
	}
	refused := lists.Each(against.Refused, func(l compare.Left) string { return l.Stage + ": " + l.Why })
	return holds, append(wrong, refused...)
}

// choose returns the changes of the plan for a random tenth of its loads, and how many of how many that are.
func (v *verification) choose() (changes []string, part string, err error) {
	var left []*spatev1.Stage
	for _, rec := range v.stages {
		if s := rec.GetStage(); s.GetProbe() == nil && s.GetLoad().GetRepeat() == 0 {
			left = append(left, s)
		}
	}
	of := len(left)
	if of == 0 {
		return nil, "", errors.New("all stages are probes of searches, whose loads follow from what was measured: " +
			"run the plan again, and compare")
	}
	random := rand.New(rand.NewPCG(v.Seed, v.Seed))
	random.Shuffle(of, func(i, j int) { left[i], left[j] = left[j], left[i] })
	var loads, targets []string
	for _, s := range left[:(of+9)/10] {
		load, err := v.loadOf(s)
		if err != nil {
			return nil, "", err
		}
		loads, targets = append(loads, load), words.AppendOnce(targets, s.GetTarget().GetName())
	}
	changes = []string{"--set", "loads=[" + strings.Join(loads, ",") + "]"}
	for _, name := range targets {
		changes = append(changes, "--only", name)
	}
	for _, to := range v.Target {
		name, url, named := strings.Cut(to, "=")
		if all := v.plan.Targets(); !named && len(all) == 1 {
			name, url = all[0].GetName(), to
		} else if !named {
			return nil, "", fmt.Errorf("--target %s: the run has %d targets: give NAME=URL", to, len(all))
		}
		if slices.Contains(targets, name) { // else none of its stages runs again
			changes = append(changes, "--set", "targets."+name+".endpoints=["+strconv.Quote(url)+"]")
		}
	}
	return changes, fmt.Sprintf("%d of %s", len(loads), words.Count(uint64(of), "load")), nil
}

// numbers are numbers that JSON of protobuf has as text.
var numbers = regexp.MustCompile(`:\s*"(\d+)"`)

// loadOf returns a load, in JSON, that gives a stage and nothing else.
func (v *verification) loadOf(s *spatev1.Stage) (string, error) {
	for _, one := range v.plan.Proto().GetLoads() {
		points := loadpoint.WithoutRepeats(one)
		one.Repeats, one.Workloads = 0, []string{s.GetWorkload().GetName()}
		one.Targets = []string{s.GetTarget().GetName()}
		for _, point := range points {
			if point.Phases == nil {
				one.Concurrency, one.Rate, one.ConcurrencyRange, one.RateRange = nil, nil, nil, nil
			}
			if point.Phases == nil && point.Concurrency > 0 {
				one.Concurrency = []uint32{point.Concurrency}
			} else if point.Phases == nil && point.Rate > 0 {
				one.Rate = []float64{point.Rate}
			}
			text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(one)
			if err != nil {
				return "", err
			}
			load := numbers.ReplaceAllString(string(text), ":$1")
			alone, err := plans.Load("plan.yaml", v.record.GetPlanYaml(), plans.Options{Discover: true,
				Changes: plans.Changes{Set: []string{"loads=[" + load + "]"}, Only: one.Targets}})
			if err != nil {
				return "", err
			}
			if stages := alone.Outline(); len(stages) == 1 && stages[0].GetSeed() == s.GetSeed() {
				return load, nil
			}
		}
	}
	return "", fmt.Errorf("stage %d cannot run alone: run the plan again, and compare", s.GetIndex()+1)
}
