package plans

import (
	_ "embed" // for the schema
)

//go:embed plan.schema.json
var schema []byte

// Schema returns the JSON Schema of plans, for editors: Draft 2020-12. A plan whose first line is
//
//	# yaml-language-server: $schema=plan.schema.json
//
// is completed and checked by it while it is written, where the editor knows YAML Language Server. Load checks more.
// The caller must not change the schema.
func Schema() []byte { return schema }
