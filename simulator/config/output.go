package config

// OutputLength is the length of outputs that end by themselves. It does not apply if the request says ignore_eos, or
// beyond the request's limit.
type OutputLength struct {
	// Mean and Stddev are those of a lognormal distribution of lengths in tokens, before the limit applies. 0, the
	// default: outputs do not end by themselves.
	Mean   float64 `plan:"output_mean"`
	Stddev float64 `plan:"output_stddev"`
}
