//go:build !race

package membership

const usualCrowd = 100
