//go:build !race

package bubble

const underRace = false
