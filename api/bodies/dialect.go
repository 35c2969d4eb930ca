package bodies

import (
	"fmt"
	"strings"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/workload"
)

// Dialect is an API with the form that a target's prompts have.
type Dialect struct {
	*api.API
	Prompt api.Prompt
}

// DialectOf returns the dialect of an API for a form of prompts: "token_ids", "text", or empty for the API's default. APIs
// that take messages ignore the form. whole: requests ask for answers in one piece. It fails for names that it does not
// know.
func DialectOf(name, prompts string, whole bool) (*Dialect, error) {
	a, known := registry.Find(name)
	if !known {
		return nil, fmt.Errorf("unknown api %q: use one of %s", name, strings.Join(registry.Names(), ", "))
	}
	return Of(a, prompts, whole)
}

// Of is DialectOf for an API.
func Of(a *api.API, prompts string, whole bool) (*Dialect, error) {
	if whole {
		a = a.InOnePiece()
	}
	d := &Dialect{a, a.Prompts[0]}
	form := d.Prompt.Form
	switch prompts {
	case "":
	case "token_ids":
		form = workload.TokenIDs
	case "text":
		form = workload.Text
	default:
		return nil, fmt.Errorf("unknown prompts %q: use \"token_ids\" or \"text\"", prompts)
	}
	if a.Chat() {
		return d, nil
	}
	var takes bool
	if d.Prompt, takes = a.Prompt(form); !takes {
		return nil, fmt.Errorf("prompts %q are not supported by api %q, which takes only text", prompts, a.Name)
	}
	return d, nil
}
