//go:build race

package bubble

const underRace = true
