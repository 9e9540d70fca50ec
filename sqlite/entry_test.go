package sqlite_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce/internal/entries"
	"github.com/justonce-dev/justonce/sqlite"
)

// The words are those of the other stores, which are tested to be complete.
func TestWords(t *testing.T) {
	t.Parallel()
	for i, want := range [...][]string{entries.Kinds, entries.States, entries.Outcomes} {
		if diff := cmp.Diff(want, sqlite.Words[i]); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}
