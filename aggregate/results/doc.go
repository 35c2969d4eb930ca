// Package results makes results from merged measurements: of a stage (OfStage), and of a run from its ledger (Of). It
// names what is missing in a result. Its types are the content of results.json.
//
// The package does not use the network, read a clock, or draw conclusions about the server. Package trust judges
// whether the numbers can be believed; package report makes files from results.
package results
