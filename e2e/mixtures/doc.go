// Package mixtures tests what runs of mixtures send and report, part by part.
package mixtures
