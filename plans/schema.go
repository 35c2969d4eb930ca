package plans

import (
	_ "embed" // for the schema
)

//go:embed plan.schema.json
var schema []byte

// Schema returns the JSON Schema of plans, for editors: Draft 2020-12. Editors with YAML Language Server use it to
// complete and check a plan whose first line is
//
//	# yaml-language-server: $schema=plan.schema.json
//
// Load checks more than the schema. The caller must not change the returned bytes.
func Schema() []byte { return schema }
