package rules

import (
	"github.com/spate-load/spate/api/bodies"
	"github.com/spate-load/spate/api/template"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// template checks the API that a target describes.
func (c *checker) template(path string, t *spatev1.Target) {
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
	if s.GetBody() != "" {
		if _, err := bodies.Template(s.GetBody(), t.GetModel()); err != nil {
			c.wrong(at+".body", err.Error())
		}
	}
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
