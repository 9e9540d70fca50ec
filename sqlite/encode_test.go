package sqlite_test

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/justonce-dev/justonce/sqlite"
)

// Files have their times with the lowest byte first.
func TestStoredTime(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		at   time.Time
		want string
	}{
		{time.Unix(1_700_000_000, 123456789).UTC(), "15cd853dfe9c9717"},
		{time.Time{}, "0000000000000080"},
	} {
		b, err := sqlite.EncodeTime(test.at)
		if got := hex.EncodeToString(b); got != test.want || err != nil {
			t.Errorf("%v: %s, %v, want %s", test.at, got, err, test.want)
		}
		if got, err := sqlite.DecodeTime(b); got != test.at || err != nil {
			t.Errorf("%s: %v, %v, want %v", test.want, got, err, test.at)
		}
		if got, err := sqlite.DecodeTime(b[:7]); err == nil {
			t.Errorf("of seven bytes: %v", got)
		}
	}
	if b, err := sqlite.EncodeTime(time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)); err == nil {
		t.Errorf("the year 2300 is %x", b)
	}
}
