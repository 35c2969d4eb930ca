//go:build !race

package membership

const crowdSize = 200
