package ready

import (
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/spate-load/spate/agent/preparation"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/rows"
)

// extras returns what requests of the stage have beside text: fields of the bodies of a mixture's parts, and fields and
// images of rows or of the workload. It reads some rows.
func (s *Stage) extras() (all []preparation.Extra, err error) {
	w := s.Assigned.GetWorkload()
	for i, part := range content.Parts(w) {
		var e preparation.Extra
		if w.GetMix() != nil {
			own := w.GetMix().GetParts()[i]
			e.Part, e.Fields = part.GetName(), own.GetBody().AsMap()
			if own.GetModel() != "" && len(e.Fields) > 0 {
				e.Fields["model"] = own.GetModel() // which may take other fields than the target's
			}
		}
		if images := part.GetRandom().GetImages(); images != nil {
			if e.Image, err = workload.FirstImage(images, s.rows[i]); err != nil {
				return nil, err
			}
		}
		if opened := s.rows[i]; opened != nil && (opened.Has(rows.MessagesWithFields) || opened.Has(rows.Messages)) {
			if err := addRow(&e, opened); err != nil {
				return nil, err
			}
		}
		if len(e.Fields) > 0 || e.Image != "" {
			all = append(all, e)
		}
	}
	return all, nil
}

// readRows is how many rows are read in search of one with something beside text.
const readRows = 64

// addRow adds what the first row that has something beside text has.
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
			if e.Fields == nil {
				e.Fields = map[string]any{}
			}
			return json.Unmarshal(slices.Concat([]byte{'{'}, row.Fields, []byte{'}'}), &e.Fields)
		}
		if e.Image != "" {
			return nil
		}
	}
	return nil
}
