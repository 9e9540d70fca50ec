//go:build race

package justonce_test

// underRace: the race detector makes everything several times slower, and
// explorations run on one goroutine.
const underRace = true
