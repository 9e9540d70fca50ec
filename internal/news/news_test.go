package news_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/news"
)

const self, other = "AAAA", "BBBB"

// Processes of other versions read it.
func TestPayload(t *testing.T) {
	t.Parallel()
	got := news.Pack(self, []justonce.Ref{{Tenant: "t", Key: `a"b`}, {Key: "ö"}}, 100)
	if diff := cmp.Diff([]string{`AAAA[["t","a\"b"],["","ö"]]`}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := news.Pack(self, nil, 100); got != nil {
		t.Errorf("no news: %q", got)
	}
}

func TestUnpack(t *testing.T) {
	t.Parallel()
	var want []justonce.Ref
	for i := range 100 {
		want = append(want, justonce.Ref{Tenant: "tenant", Key: strings.Repeat("k", i)})
	}
	for most := 130; most < 300; most++ {
		tooLong := justonce.Ref{Key: strings.Repeat("k", most)}
		payloads := news.Pack(self, append([]justonce.Ref{tooLong}, want...), most)
		var got []justonce.Ref
		for _, p := range payloads {
			if len(p) > most {
				t.Errorf("a payload of %d bytes, want at most %d", len(p), most)
			}
			refs, err := news.Unpack(other, p)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, refs...)
			if refs, err := news.Unpack(self, p); refs != nil || err != nil {
				t.Errorf("its own news: %v, %v", refs, err)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("at most %d bytes (-want +got)\n%s", most, diff)
		}
	}
}

// One that is alone may need the room of the sender's name too.
func TestLongestRef(t *testing.T) {
	t.Parallel()
	const most = 100
	for n := range most + 10 {
		got := news.Pack(self, []justonce.Ref{{Key: strings.Repeat("k", n)}}, most)
		if pair := n + len(`["",""]`); (len(got) == 1) != (pair <= most) || len(got) == 1 && len(got[0]) != len(self)+2+pair {
			t.Errorf("a key of %d bytes: %q", n, got)
		}
	}
}

func TestNotOurs(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{"", "B", "BBBB", "BBBB[", "BBBB{}", `BBBB[["t",1]]`, "hello, world"} {
		if refs, err := news.Unpack(self, payload); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%.20q", payload)) {
			t.Errorf("%q: %v, %v", payload, refs, err)
		}
	}
}
