package merge

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/servermetrics"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Limits on what an agent may send.
const (
	// MaxSnapshotBytes bounds a snapshot's encoding.
	MaxSnapshotBytes = 16 << 20
	// maxLists bounds the number of an agent's lists of items.
	maxLists = 1 << 16
)

// Checked is a snapshot that may enter the ledger of a run and stage. It holds the distributions as the check decoded
// them, so that the merge does not decode them again. The snapshot must not be changed any more.
type Checked struct {
	snapshot *spatev1.Snapshot
	decoded  [][]part // by series, and behind them by turn
}

// Check returns a snapshot for Stage.AddChecked to merge, or an error that says why it may not enter the ledger of a
// run and stage. Call it before Append, so that every snapshot in the ledger can be merged. Check is pure and may be
// called concurrently.
func Check(s *spatev1.Snapshot, run *spatev1.RunRecord, stage *spatev1.StageRecord) (Checked, error) {
	if size := proto.Size(s); size > MaxSnapshotBytes {
		return Checked{}, fmt.Errorf("snapshot has %d bytes, more than %d", size, MaxSnapshotBytes)
	}
	if err := checkKey(s, run, stage); err != nil {
		return Checked{}, err
	}
	if err := checkMerged(s, run.GetRecords() != ""); err != nil {
		return Checked{}, err
	}
	endpoints := len(stage.GetStage().GetTarget().GetEndpoints())
	parts := max(1, len(stage.GetStage().GetWorkload().GetMix().GetParts())) // 1 without a mixture
	decoded, err := checkAllSeries(s.GetSeries(), endpoints, parts)
	if err != nil {
		return Checked{}, err
	}
	turns, err := checkAllSeries(s.GetTurns(), measure.TurnClasses, 1)
	if err != nil {
		return Checked{}, fmt.Errorf("turns: %w", err)
	}
	decoded = append(decoded, turns...)
	if err := checkRecords(s.GetRecords(), run.GetRecords() != "", endpoints, parts); err != nil {
		return Checked{}, err
	}
	if err := checkShares(s); err != nil {
		return Checked{}, err
	}
	if err := servermetrics.CheckSamples(s.GetServerSamples(), stage.GetStage().GetTarget()); err != nil {
		return Checked{}, err
	}
	if err := servermetrics.CheckAccounts(s.GetServerAccounts(), stage.GetStage().GetTarget()); err != nil {
		return Checked{}, err
	}
	return Checked{s, decoded}, checkTotals(s.GetTotals())
}

// checkKey checks that the snapshot belongs to the stage.
func checkKey(s *spatev1.Snapshot, run *spatev1.RunRecord, stage *spatev1.StageRecord) error {
	key := s.GetKey()
	switch {
	case key.GetRunId() != run.GetRunId():
		return fmt.Errorf("snapshot is of run %.64q, this is run %q", key.GetRunId(), run.GetRunId())
	case s.GetStageIndex() != stage.GetStage().GetIndex():
		return fmt.Errorf("snapshot is of stage %d, this is stage %d", s.GetStageIndex()+1,
			stage.GetStage().GetIndex()+1)
	case key.GetSequence() == 0:
		return fmt.Errorf("snapshot has no sequence number")
	case s.GetWindow() > measure.MaxWindow:
		return fmt.Errorf("window %d is beyond the longest stage's last, %d", s.GetWindow(), measure.MaxWindow)
	}
	return checkAgent(s, stage)
}

// checkAgent checks that the agent's process takes part in the stage, and was not lost before this window.
func checkAgent(s *spatev1.Snapshot, stage *spatev1.StageRecord) error {
	key := s.GetKey()
	if a := Assigned(stage, key); a != nil {
		if !beforeLoss(a.GetLoss(), s) {
			return fmt.Errorf("agent %q was lost: its snapshots from window %d on are refused, and this is window %d",
				key.GetAgent(), a.GetLoss().GetFromWindow(), s.GetWindow())
		}
		return nil
	}
	for _, a := range slices.Backward(stage.GetAgents()) {
		if a.GetAgent().GetName() == key.GetAgent() {
			return fmt.Errorf("agent %q takes part as process %x, not as %x", key.GetAgent(), a.GetIncarnation(),
				key.GetIncarnation())
		}
	}
	return fmt.Errorf("agent %.64q takes no part in stage %d", key.GetAgent(), stage.GetStage().GetIndex()+1)
}

// checkMerged checks the fields for two special cases: snapshots that an agent merged while its coordinator was
// unreachable, and snapshots of an agent whose stripe may be handed over.
func checkMerged(s *spatev1.Snapshot, keepsRows bool) error {
	switch {
	case s.FirstWindow != nil && s.GetFirstWindow() > s.GetWindow():
		return fmt.Errorf("the first window, %d, is behind the last, %d", s.GetFirstWindow(), s.GetWindow())
	case s.GetDroppedRecords() > measure.MaxWindowCount:
		return fmt.Errorf("%d request rows dropped", s.GetDroppedRecords())
	case s.GetDroppedRecords() > 0 && !keepsRows:
		return fmt.Errorf("%d request rows dropped, but the run keeps none", s.GetDroppedRecords())
	case len(s.GetStartedItems()) > maxLists:
		return fmt.Errorf("%d lists of items, more than %d", len(s.GetStartedItems()), maxLists)
	case slices.ContainsFunc(s.GetStartedItems(), func(n uint64) bool { return n > measure.MaxTotal }):
		return fmt.Errorf("more than %d items started", measure.MaxTotal)
	}
	return nil
}

// checkAllSeries checks the measurements of all parts and endpoints and returns their distributions.
func checkAllSeries(all []*spatev1.Series, endpoints, parts int) (decoded [][]part, err error) {
	next := int64(0)
	for _, series := range all {
		e := series.GetEndpoint()
		if int64(e) >= int64(endpoints) {
			return nil, fmt.Errorf("endpoint %d: the target has %d", e, endpoints)
		}
		if int64(series.GetPart()) >= int64(parts) {
			return nil, fmt.Errorf("part %d: the workload has %d", series.GetPart(), parts)
		}
		place := int64(series.GetPart())*int64(endpoints) + int64(e)
		if place < next {
			return nil, fmt.Errorf("endpoint %d: given twice or out of order", e)
		}
		next = place + 1
		parts, err := checkSeries(series)
		if err != nil {
			return nil, fmt.Errorf("endpoint %d: %w", e, err)
		}
		decoded = append(decoded, parts)
	}
	return decoded, nil
}

// checkSeries checks the measurements of one endpoint and returns its distributions.
func checkSeries(s *spatev1.Series) ([]part, error) {
	if err := checkCounters(s.GetCounters(), measure.MaxWindowCount); err != nil {
		return nil, err
	}
	failed, err := checkErrors(s.GetErrors())
	if err != nil {
		return nil, err
	}
	if failed != s.GetCounters().GetFailed() {
		return nil, fmt.Errorf("%d failed requests, but %d errors", s.GetCounters().GetFailed(), failed)
	}
	if err := checkModels(s); err != nil {
		return nil, err
	}
	return decode(s.GetDistributions())
}

// checkModels checks the models that answers named.
func checkModels(s *spatev1.Series) error {
	seen, requests := make(map[string]bool), uint64(0)
	for _, m := range s.GetModels() {
		switch {
		case m.GetModel() == "" || len(m.GetModel()) > measure.MaxText || seen[m.GetModel()]:
			return fmt.Errorf("model %.100q is given twice, or is not a name", m.GetModel())
		case m.GetRequests() == 0 || m.GetRequests() > measure.MaxWindowCount || m.GetStreamed() > m.GetRequests() ||
			max(m.GetE2EUs(), m.GetTtftUs()) > measure.MaxTotal:
			return fmt.Errorf("model %.100q has impossible counts", m.GetModel())
		}
		seen[m.GetModel()] = true
		requests += m.GetRequests()
	}
	switch completed := s.GetCounters().GetCompleted(); {
	case len(seen) > measure.MaxModels+1:
		return fmt.Errorf("%d models, more than %d", len(seen), measure.MaxModels+1)
	case requests > completed:
		return fmt.Errorf("models of %d requests, but %d completed", requests, completed)
	}
	return nil
}

// checkCounters checks that counters are plausible: none is above most, and no counter of completed requests is above
// their number.
func checkCounters(c *spatev1.Counters, most uint64) error {
	counts := measure.CountsOf(c)
	for _, counter := range measure.Counters() {
		switch count := counts[counter]; {
		case count > most:
			return fmt.Errorf("counter %s is %d, more than %d", counter, count, most)
		case counter.OfCompleted() && count > counts[measure.Completed]:
			return fmt.Errorf("counter %s is %d of %d completed requests", counter, count, counts[measure.Completed])
		}
	}
	return nil
}

// checkErrors checks the errors and returns the sum of their counts.
func checkErrors(errs []*spatev1.ErrorCount) (total uint64, err error) {
	seen := make(map[errorKey]bool, len(errs))
	for _, e := range errs {
		key := errorKey{e.GetClass(), e.GetHttpStatus()}
		if err := checkError(e); err != nil {
			return 0, err
		}
		if seen[key] {
			return 0, fmt.Errorf("error %s is given twice", measure.ErrorName(key.class, key.status))
		}
		seen[key] = true
		total += e.GetCount()
	}
	return total, nil
}

// checkError checks one kind of failure.
func checkError(e *spatev1.ErrorCount) error {
	_, isKnown := spatev1.ErrorClass_name[int32(e.GetClass())]
	isStatus := e.GetClass() == spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS
	switch {
	case !isKnown || e.GetClass() == spatev1.ErrorClass_ERROR_CLASS_UNSPECIFIED:
		return fmt.Errorf("error class %d is not known", e.GetClass())
	case isStatus && (e.GetHttpStatus() < measure.MinStatus || e.GetHttpStatus() > measure.MaxStatus):
		return fmt.Errorf("HTTP status %d is out of range", e.GetHttpStatus())
	case !isStatus && e.GetHttpStatus() != 0:
		return fmt.Errorf("error %s with HTTP status %d", measure.ErrorName(e.GetClass(), 0), e.GetHttpStatus())
	case e.GetCount() == 0 || e.GetCount() > measure.MaxWindowCount:
		return fmt.Errorf("error %s counts %d", measure.ErrorName(e.GetClass(), e.GetHttpStatus()), e.GetCount())
	case len(e.GetExample()) > measure.MaxText:
		return fmt.Errorf("example of error %s has %d bytes, more than %d",
			measure.ErrorName(e.GetClass(), e.GetHttpStatus()), len(e.GetExample()), measure.MaxText)
	}
	return nil
}

// checkRecords checks the request rows.
func checkRecords(records []*spatev1.RequestRecord, kept bool, endpoints, parts int) error {
	if len(records) > 0 && !kept {
		return fmt.Errorf("%d request rows, and the run keeps none", len(records))
	}
	for _, r := range records {
		_, isKnown := spatev1.ErrorClass_name[int32(r.GetErrorClass())]
		switch {
		case int64(r.GetEndpoint()) >= int64(endpoints):
			return fmt.Errorf("request %d: endpoint %d: the target has %d", r.GetIndex(), r.GetEndpoint(), endpoints)
		case int64(r.GetPart()) >= int64(parts):
			return fmt.Errorf("request %d: part %d: the workload has %d", r.GetIndex(), r.GetPart(), parts)
		case !isKnown:
			return fmt.Errorf("request %d: error class %d is not known", r.GetIndex(), r.GetErrorClass())
		case max(len(r.GetError()), len(r.GetFinishReason()), len(r.GetAnswerModel())) > measure.MaxText:
			return fmt.Errorf("request %d: a text of more than %d bytes", r.GetIndex(), measure.MaxText)
		case len(r.GetItlNs()) > measure.MaxFrames:
			return fmt.Errorf("request %d: %d token gaps, more than %d", r.GetIndex(), len(r.GetItlNs()),
				measure.MaxFrames)
		}
	}
	return nil
}

// checkShares checks what the snapshot adds to earlier windows.
func checkShares(s *spatev1.Snapshot) error {
	next := uint32(0)
	for _, share := range s.GetShares() {
		w := share.GetWindow()
		switch {
		case w < next || w > s.GetWindow():
			return fmt.Errorf("share of window %d in a snapshot of window %d: given twice, out of order or ahead", w,
				s.GetWindow())
		case max(share.GetOutputTokens(), share.GetChunks(), share.GetMicroRequests()) > measure.MaxTotal:
			return fmt.Errorf("share of window %d: more than %d", w, uint64(measure.MaxTotal))
		}
		next = w + 1
	}
	return nil
}

// checkTotals checks the totals, if there are any.
func checkTotals(t *spatev1.Totals) error {
	if t == nil {
		return nil
	}
	var seen measure.Set
	for _, v := range t.GetValues() {
		if m := v.GetMetric(); !measure.Known(m) || seen.Has(m) {
			return fmt.Errorf("totals: metric %d is not known or given twice", m)
		}
		seen |= measure.SetOf(v.GetMetric())
	}
	for _, ns := range []int64{
		t.GetFirstStartNs(), t.GetLastStartNs(), t.GetLastEndNs(), t.GetSteadyFromNs(), t.GetSteadyToNs(),
		t.GetUnsentFromNs(),
	} {
		if ns > measure.MaxWindow*nanosPerSecond || ns < -measure.MaxWindow*nanosPerSecond {
			return fmt.Errorf("totals: a time %d ns from the stage's start", ns)
		}
	}
	switch {
	case t.GetSnapshots() == 0:
		return fmt.Errorf("totals of no snapshots, but this is one")
	case t.GetNeverSent() > measure.MaxTotal:
		return fmt.Errorf("totals: %d requests never sent", t.GetNeverSent())
	case t.GetUnsentAfterFailure() > t.GetNeverSent():
		return fmt.Errorf("totals: %d requests not sent after a failure, of %d never sent", t.GetUnsentAfterFailure(),
			t.GetNeverSent())
	case len(t.GetFailure()) > measure.MaxReason:
		return fmt.Errorf("totals: a text of more than %d bytes", measure.MaxReason)
	}
	return checkCounters(t.GetCounters(), measure.MaxTotal)
}

// Assigned returns the assigned agent (name and process) that a snapshot's key names, or nil if it takes no part in the
// stage. It runs for each snapshot, and a stage may have a thousand agents. Records list agents sorted by name, except
// those that joined later, so the binary search finds nearly all of them.
func Assigned(rec *spatev1.StageRecord, k *spatev1.SnapshotKey) *spatev1.AssignedAgent {
	agents := rec.GetAgents()
	i, found := slices.BinarySearchFunc(agents, k.GetAgent(), func(a *spatev1.AssignedAgent, name string) int {
		return strings.Compare(a.GetAgent().GetName(), name)
	})
	if found && agents[i].GetIncarnation() == k.GetIncarnation() {
		return agents[i]
	}
	for _, a := range agents {
		if a.GetAgent().GetName() == k.GetAgent() && a.GetIncarnation() == k.GetIncarnation() {
			return a
		}
	}
	return nil
}

// InResult reports whether a snapshot belongs to the result of a stage. Of a lost agent, only the windows before its
// loss belong to it. Other agents send the later windows, which would otherwise count twice. If none does, the result
// says that they are missing.
func InResult(rec *spatev1.StageRecord, s *spatev1.Snapshot) bool {
	assigned := Assigned(rec, s.GetKey())
	return assigned != nil && beforeLoss(assigned.GetLoss(), s)
}

// beforeLoss reports whether a snapshot's window is before its agent's loss, or the agent was not lost (nil).
func beforeLoss(loss *spatev1.Loss, s *spatev1.Snapshot) bool {
	return loss == nil || s.GetWindow() < loss.GetFromWindow()
}
