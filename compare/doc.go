// Package compare compares runs: it matches their stages by what was asked of them, and says for each number of a stage
// by how much it differs, how far chance alone may have moved it, and whether the difference is real and large enough
// to matter. It is pure: package runfiles reads runs, package show writes comparisons.
//
// All numbers shown come from results.Result. Request rows say only how much those numbers vary by chance: requests
// that one engine serves together share its steps, so they are not independent samples. compare keeps requests that
// ran at one time together, in blocks, and compares the two runs at the same time of the stage, so that what both runs
// have in common (arrivals, lengths, ramp-up) does not count as chance. See docs/compare.md.
package compare
