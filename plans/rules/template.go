package rules

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spate-load/spate/api/bodies"
	"github.com/spate-load/spate/api/template"
	"github.com/spate-load/spate/plans/defaults"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// template checks the API that a target describes. discover: files of the plan will be read.
func (c *checker) template(path string, t *spatev1.Target, discover bool) {
	at, s := path+".template", t.GetTemplate()
	switch used := t.GetApi() == template.Name; {
	case used && s == nil:
		c.wrong(path+".api", "needs the target's template: give its path and body")
		return
	case !used && c.Has(at):
		c.wrong(at, "works only with api: template")
		return
	case !used:
		return
	}
	c.templateBody(at, t, discover)
	streams := s.GetStream() == template.SSE || s.GetStream() == template.Lines
	if streams && s.GetText() == "" {
		c.wrong(at+".stream", "needs text: without it no event has a token")
	}
	for _, field := range []string{"stream", "body", "prompts"} {
		if c.Has(path + "." + field) {
			c.wrong(path+"."+field, "does not work with api: template, whose template says it")
		}
	}
}

// templateBody checks what a template sends: a body, or a form.
func (c *checker) templateBody(path string, t *spatev1.Target, discover bool) {
	body, formed := t.GetTemplate().GetBody(), c.Given(path, "form", "files")
	switch {
	case body == "" && len(formed) == 0:
		c.absent(path, "has neither body nor form: give one of them", "body", "form")
	case body != "" && len(formed) > 0:
		c.wrong(path+"."+formed[0], "give body or form, not both")
	case len(formed) > 0:
		c.formFields(path, t, discover)
	default:
		if _, err := bodies.Template(body, t.GetModel()); err != nil {
			c.wrong(path+".body", err.Error())
		}
	}
}

// formFields checks the fields and files of a form.
func (c *checker) formFields(path string, t *spatev1.Target, discover bool) {
	found := len(c.found)
	for _, name := range slices.Sorted(maps.Keys(t.GetTemplate().GetForm())) {
		if _, err := bodies.FormField(name, t.GetTemplate().GetForm()[name], t.GetModel()); err != nil {
			c.wrong(fmt.Sprintf("%s.form[%s]", path, strconv.Quote(name)), err.Error())
		}
	}
	for i, f := range t.GetTemplate().GetFiles() {
		at := fmt.Sprintf("%s.files[%d]", path, i)
		if _, err := base64.StdEncoding.DecodeString(f.GetContent()); err != nil {
			c.wrong(at+".content", "must be Base64: "+err.Error())
		} else if f.GetContent() == "" && f.GetPath() != "" && !discover {
			c.wrong(at+".path", unread)
		}
	}
	if _, err := bodies.Form(defaults.Template(t).Form, t.GetModel()); err != nil && len(c.found) == found {
		c.wrong(path+".form", err.Error())
	}
}
