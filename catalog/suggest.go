package catalog

import (
	"slices"
	"strings"
)

// suggest words what a wrong name may have meant, or lists the names there
// are, if they are few.
func suggest(wrong string, names []string) string {
	best, least := "", 1+max(1, min(3, len(wrong)/3))
	w := strings.ToLower(strings.ReplaceAll(wrong, "-", "_"))
	if len(w) <= 64 {
		for _, name := range slices.Sorted(slices.Values(names)) {
			if d := distance(w, strings.ToLower(name)); d < least {
				best, least = name, d
			}
		}
	}
	if best != "" {
		return "did you mean " + best + "?"
	}
	if len(names) == 0 || len(names) > 30 {
		return ""
	}
	return "there are " + strings.Join(slices.Sorted(slices.Values(names)), ", ")
}

// didYouMean is suggest without the list of names.
func didYouMean(wrong string, names []string) string {
	if s := suggest(wrong, names); strings.HasPrefix(s, "did ") {
		return s
	}
	return ""
}

// distance counts the edits between two short strings: insertions, deletions,
// substitutions and swapped neighbours.
func distance(a, b string) int {
	if len(b) > 64 {
		return 64
	}
	var prev, row, next [66]int
	for j := range len(b) + 1 {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], prev[j-2]+1)
			}
		}
		prev, row = row, next
	}
	return row[len(b)]
}
