package canon_test

import (
	"strings"
	"testing"

	"github.com/justonce-dev/justonce/internal/canon"
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("0", 40)
	for _, tc := range []struct{ src, want string }{
		{"0", "0"}, {"-0", "0"}, {"-0.0", "0"}, {"0e5", "0"}, {"0e-999999999999999999999999", "0"},
		{"1", "1"}, {"1.0", "1"}, {"1e0", "1"}, {"10e-1", "1"}, {"1E+0", "1"}, {"0.1e1", "1"}, {"0.0010e3", "1"},
		{"-1", "-1"}, {"-10.50", "-10.5"}, {"100", "100"}, {"1e2", "100"}, {"1.25e1", "12.5"},
		{"0.5", "0.5"}, {"5e-1", "0.5"}, {"0.000001", "0.000001"}, {"1e-7", "0.0000001"},
		{"9007199254740993", "9007199254740993"}, {"9007199254740993.0", "9007199254740993"},
		{"9007199254740993e0", "9007199254740993"}, {"12345678901234567890", "12345678901234567890"},
		{"0.1000000000000000055511151231257827", "0.1000000000000000055511151231257827"},
		{"1e40", "1" + zeros}, {"1" + zeros, "1" + zeros}, {"12e40", "12" + zeros},
		{"1e41", "1e+41"}, {"1" + zeros + "0", "1e+41"}, {"12e41", "1.2e+42"}, {"-12e41", "-1.2e+42"},
		{"1e-40", "0." + zeros[:39] + "1"}, {"1e-41", "1e-41"}, {"12e-42", "1.2e-41"},
		{"1e400", "1e+400"}, {"1E400", "1e+400"}, {"123e400", "1.23e+402"}, {"1e-400", "1e-400"},
		{"1e0000000000000000000000000000000000001", "10"},
		{"1.7976931348623157e308", "1.7976931348623157e+308"}, {"5e-324", "5e-324"},
		{"0." + strings.Repeat("0", 2000) + "1e2001", "1"},
		{"1" + strings.Repeat("0", 2000) + "e-2000", "1"},
	} {
		if got := form(t, tc.src, nil); got != tc.want {
			t.Errorf("Append(%.60s) = %s, want %s", tc.src, got, tc.want)
		}
		if again := form(t, tc.want, nil); again != tc.want {
			t.Errorf("Append(%s) = %s, want the same", tc.want, again)
		}
	}
}

func TestNumberBounds(t *testing.T) {
	t.Parallel()
	for _, src := range []string{
		"1e401", "1e-401", "-1e401", "1e999999999", "1e-999999999", "1e9223372036854775808",
		"1e" + strings.Repeat("9", 5000), "1e-" + strings.Repeat("9", 5000),
		"1" + strings.Repeat("0", 401), // the same value is refused in any spelling
		"0." + strings.Repeat("0", 400) + "1",
	} {
		if err := canon.Valid([]byte(src), nil); kind(err) != canon.KindExponent {
			t.Errorf("Valid(%.30s): got %v", src, err)
		}
	}
	o := &canon.Options{MaxExponent: 3}
	for src, ok := range map[string]bool{"1000": true, "1e3": true, "10000": false, "1e4": false,
		"0.001": true, "0.0001": false, "12345.6789": true} {
		if err := canon.Valid([]byte(src), o); (err == nil) != ok {
			t.Errorf("MaxExponent 3, %s: got %v", src, err)
		}
	}
}

// A million digits must take time in proportion; quadratic work would take minutes.
func TestLongNumbers(t *testing.T) {
	t.Parallel()
	o := &canon.Options{MaxBytes: 8 << 20}
	digits := strings.Repeat("1234567890", 100_000)
	for src, want := range map[string]string{
		digits + "1":              digits + "1",
		digits + "1.000":          digits + "1",
		"0." + digits + "1":       "0." + digits + "1",
		digits + "." + digits:     digits + "." + strings.TrimSuffix(digits, "0"),
		"0." + digits + "1e1":     "1." + digits[1:] + "1",
		digits + "1e-1":           digits + ".1",
		"-" + digits + "e-000001": "-" + strings.TrimSuffix(digits, "0"),
	} {
		if got := form(t, src, o); got != want {
			t.Errorf("%d bytes starting %.12s give %d bytes starting %.12s", len(src), src, len(got), got)
		}
	}
}
