package config

// OutputLength is the length of outputs that end by themselves. It does not apply if the request says ignore_eos, or
// beyond the request's limit. Set either MeanShare or Mean.
type OutputLength struct {
	// MeanShare is the mean length of outputs as a share of their limit, above 0 and below 1. Each token is the last
	// with the same chance. 0, the default: outputs do not end by themselves.
	MeanShare float64 `most:"1" plan:"output_share"`
	// Mean and Stddev are those of a lognormal distribution of lengths in tokens, before the limit applies. 0, the
	// default: outputs do not end by themselves.
	Mean   float64 `plan:"output_mean"`
	Stddev float64 `plan:"output_stddev"`
}
