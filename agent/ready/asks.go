package ready

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/plans/defaults"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/content"
	"github.com/spate-load/spate/workload/rows"
)

// askFields are the fields of bodies that ask for more than text. Those of one list need each other.
var askFields = [][]string{
	{"tools", "tool_choice", "parallel_tool_calls"}, {"response_format"}, {"structured_outputs"}, {"guided_json"},
	{"guided_regex"}, {"guided_choice"}, {"guided_grammar"}, {"text"}, {"output_config"}, {"output_format"},
}

// asks returns an error if the server refuses requests because of a field that asks for tools or for the form of an
// answer: all requests of the stage would fail. It names the field.
func (f *finder) asks(ctx context.Context) error {
	if f.accepted || f.unreachable || !f.api().Trials {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	return f.refused(ctx, stream.TrialRequest{}, askedIn(f.stage.GetTarget().GetBody().AsMap()))
}

// Extra is what some requests of a stage have besides text.
type Extra struct {
	// Part is the name of the mixture's part that has such requests. Empty: the workload has them.
	Part string
	// Fields are fields of the body over those of the target.
	Fields map[string]any
	// Image is the URL of an image, for OpenAI's chat API. Empty: none.
	Image string
	// TokenIDs says that prompts are token IDs, and the API takes text, too.
	TokenIDs bool
}

// checkExtras returns an error if the target's server refuses requests with one of the extras, which it names, and
// takes them without: requests of the stage would fail. It also returns how many requests it sent. The target's API
// must have trials. checkExtras tries only the target's first endpoint. It blocks for at most a quarter of a minute.
func checkExtras(ctx context.Context, client targetClient, stage *spatev1.Stage, extras []Extra) (uint32, error) {
	f := &finder{client: client, stage: stage}
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	for _, e := range extras {
		var err error
		if e.TokenIDs {
			err = f.refusedIDs(ctx)
		} else {
			err = f.refused(ctx, stream.TrialRequest{With: e.Fields, Image: e.Image}, askedIn(e.Fields))
		}
		if err != nil {
			if e.Part != "" {
				err = fmt.Errorf("part %s: %w", e.Part, err)
			}
			return f.requests, fmt.Errorf("target %s: %w", stage.GetTarget().GetName(), err)
		}
	}
	return f.requests, nil
}

// refused returns an error if the server refuses a request because of its image, or because of one of the lists of
// fields. It sends nothing if there is neither.
func (f *finder) refused(ctx context.Context, base stream.TrialRequest, asked [][]string) error {
	if len(asked) == 0 && base.Image == "" {
		return nil
	}
	if _, err := f.attempt(ctx, base); !stream.Refused(err) {
		return nil
	}
	plain := base
	plain.Without, plain.Image = slices.Concat(asked...), ""
	if _, err := f.attempt(ctx, plain); err != nil {
		return nil //nolint:nilerr // the plan asks for nothing that makes the difference
	}
	for i, fields := range asked {
		one := plain
		one.Without = slices.Concat(slices.Delete(slices.Clone(asked), i, i+1)...)
		if _, err := f.attempt(ctx, one); stream.Refused(err) {
			return fmt.Errorf("the server refuses requests with %s, and takes them without: %w",
				strings.Join(fields, " and "), err)
		}
	}
	if base.Image == "" {
		return nil
	}
	plain.Image = base.Image
	if _, err := f.attempt(ctx, plain); stream.Refused(err) {
		return fmt.Errorf("the server refuses requests with an image (image_url in messages), and takes them without: %w",
			err)
	}
	return nil
}

// refusedIDs returns an error if the server refuses a prompt of token IDs and takes a text. Some servers answer with
// status 404 or 500 instead; other statuses, such as that of an overload, say nothing about the prompt.
func (f *finder) refusedIDs(ctx context.Context) error {
	_, err := f.attempt(ctx, stream.TrialRequest{TokenIDs: true})
	answer, answered := errors.AsType[*stream.Error](err)
	fails := answered && slices.Contains([]int{http.StatusNotFound, http.StatusInternalServerError}, answer.HTTPStatus)
	if !fails && !stream.Refused(err) {
		return nil
	}
	if _, err := f.attempt(ctx, stream.TrialRequest{}); err != nil {
		return nil //nolint:nilerr // the form of the prompt is not the reason
	}
	return fmt.Errorf("the server refuses prompts that are token ids, and takes text: set the target's prompts to text: %w",
		err)
}

// askedIn returns those of askFields that a body has.
func askedIn(body map[string]any) (all [][]string) {
	for _, fields := range askFields {
		fields = slices.DeleteFunc(slices.Clone(fields), func(name string) bool { return body[name] == nil })
		if len(fields) > 0 {
			all = append(all, fields)
		}
	}
	return all
}

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
			if e.Image, err = workload.FirstImage(part); err != nil {
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
