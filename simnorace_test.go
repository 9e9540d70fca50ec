//go:build !race

package justonce_test

const underRace = false
