package ready

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/spate-load/spate/agent/preparation"
	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/rows"
)

// extras returns what requests of the stage have besides text: fields of the bodies of a mixture's parts, and fields
// and images of rows or of the workload. It reads some rows. Nil: nothing, or the target's API has no trials that show
// whether the server takes it.
func (s *Stage) extras() (all []preparation.Extra, err error) {
	if !defaults.API(s.Target()).Trials {
		return nil, nil
	}
	parts := content.Parts(s.Assigned.GetWorkload())
	for _, v := range s.firstVariants() {
		part, opened := parts[v.Part], s.rows[v.Part]
		e := preparation.Extra{Fields: map[string]any{}}
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

// readRows is how many rows are read in search of one with something besides text.
const readRows = 64

// addRow adds the fields or the image of the first row that has more than text.
func addRow(e *preparation.Extra, opened *rows.File) error {
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
