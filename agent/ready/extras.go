package ready

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/spate-load/spate/plans/defaults"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/rows"
)

// extras returns what requests of the stage have besides text, or in its place: fields of the bodies of a mixture's
// parts, fields and images of rows or of the workload, and token IDs. It reads some rows. Nil: nothing, or the target's
// API has no trials that show whether the server takes it.
func (s *Stage) extras() (all []Extra, err error) {
	if !defaults.API(s.Target()).Trials {
		return nil, nil
	}
	parts := content.Parts(s.Assigned.GetWorkload())
	if s.Target().GetPrompts() == defaults.PromptIDs && slices.ContainsFunc(parts, makesIDs) { // as plans fill it in
		all = append(all, Extra{TokenIDs: true})
	}
	for _, v := range s.firstVariants() {
		part, opened := parts[v.Part], s.rows[v.Part]
		e := Extra{Fields: map[string]any{}}
		maps.Copy(e.Fields, v.Fields)
		if s.Assigned.GetWorkload().GetMix() != nil {
			e.Part = part.GetName()
		}
		if part.GetRandom().GetImages() != nil {
			if e.Image, err = workload.FirstImage(part, opened); err != nil {
				return nil, err
			}
		}
		if opened != nil && (opened.Has(rows.MessagesWithFields) || opened.Has(rows.Messages)) {
			if err := addRow(&e, opened); err != nil {
				return nil, err
			}
		}
		if len(e.Fields) == 0 && e.Image == "" {
			continue
		}
		if v.Model != "" {
			e.Fields["model"] = v.Model // which may take other requests than the target's
		}
		all = append(all, e)
	}
	return all, nil
}

// makesIDs reports whether a workload's prompts are token IDs wherever a target takes them. Rows may have text.
func makesIDs(part *spatev1.Workload) bool {
	return part.GetRandom() != nil || content.Trace(part) != nil
}

// readRows is how many rows are read in search of one with something besides text.
const readRows = 64

// addRow adds the fields or the image of the first row that has more than text.
func addRow(e *Extra, opened *rows.File) error {
	var row rows.Row
	for n := range min(readRows, opened.Len()) {
		if err := opened.Read(n, &row); err != nil {
			return err
		}
		if !row.HasMessages() {
			continue
		}
		e.Image = gjson.GetBytes(row.Content, `#.content.#(type=="image_url").image_url.url|0`).String()
		if len(row.Fields) > 0 {
			return json.Unmarshal(slices.Concat([]byte{'{'}, row.Fields, []byte{'}'}), &e.Fields)
		}
		if e.Image != "" {
			return nil
		}
	}
	return nil
}
