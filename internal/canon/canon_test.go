package canon_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce/internal/canon"
)

// form gives the canonical form under o, failing the test on an error.
func form(t testing.TB, src string, o *canon.Options) string {
	t.Helper()
	out, err := canon.Append(nil, []byte(src), o)
	if err != nil {
		t.Fatalf("Append(%.200q): %v", src, err)
	}
	return string(out)
}

func TestAppend(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, src, want string }{
		{"white space", " {\t\"a\" :\r\n[ 1 , 2 ] } ", `{"a":[1,2]}`},
		{"empty object", ` { } `, `{}`},
		{"empty array", ` [ ] `, `[]`},
		{"empty name", `{"":1}`, `{"":1}`},
		{"scalars", `[true,false,null,"",0]`, `[true,false,null,"",0]`},
		{"nested order", `{"b":{"d":1,"c":2},"a":[{"z":1,"y":2}]}`, `{"a":[{"y":2,"z":1}],"b":{"c":2,"d":1}}`},
		{"prefix first", `{"ab":1,"a":2,"abcdefghi":3,"abcdefgh":4}`, `{"a":2,"ab":1,"abcdefgh":4,"abcdefghi":3}`},
		{"arrays keep order", `[3,1,2]`, `[3,1,2]`},

		// RFC 8785, 3.2.3: code units of UTF-16, not bytes of UTF-8.
		{"order of the RFC", `{"\u20ac":"Euro","\r":"CR","\ufb33":"Dalet","1":"One","\ud83d\ude00":"Smile","\u0080":"Control","\u00f6":"O"}`,
			"{\"\\r\":\"CR\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"O\",\"€\":\"Euro\",\"😀\":\"Smile\",\"\ufb33\":\"Dalet\"}"},
		{"escaped names sort by their text", `{"A":1,"\n":2,"\"":3,"\\":4,"[":5,"]":6}`, `{"\n":2,"\"":3,"A":1,"[":5,"\\":4,"]":6}`},
		{"two astral names", "{\"\U0001F601\":1,\"\U0001F600\":2,\"\uffff\":3}", "{\"\U0001F600\":2,\"\U0001F601\":1,\"\uffff\":3}"},

		// RFC 8785, 3.2.2.2
		{"escapes of the RFC", `"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"`, `"€$\u000f\nA'B\"\\\\\"/"`},
		{"short escapes", `"\u0008\u0009\u000a\u000c\u000d\u0000\u001f\u007f"`, "\"\\b\\t\\n\\f\\r\\u0000\\u001f\x7f\""},
		{"literal", `"\u003c\u003e\u0026\u2028\/"`, "\"<>&\u2028/\""},
		{"pair", `"\uD83D\uDE00"`, `"😀"`},
		{"replacement character is a character", "\"\ufffd\\ufffd\"", "\"\ufffd\ufffd\""},
		{"no normalisation", "[\"e\u0301\",\"\u00e9\",\"\u212b\",\"\u00c5\"]", "[\"e\u0301\",\"\u00e9\",\"\u212b\",\"\u00c5\"]"},
		{"escape at each place of eight", `"0123456\n89abcde\tghijklmnop\"qrstuv"`, `"0123456\n89abcde\tghijklmnop\"qrstuv"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := form(t, tc.src, nil)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Append(%s) (-want +got):\n%s", tc.src, diff)
			}
			if again := form(t, got, nil); again != got {
				t.Errorf("canonical form of %s is %s", got, again)
			}
		})
	}
}

// Many members take the other sorting path.
func TestAppendManyMembers(t *testing.T) {
	t.Parallel()
	var src, want strings.Builder
	const letters = "abcdefghijklmnopqrstuvwxyz"
	for i := range letters {
		src.WriteString(`,"` + letters[len(letters)-1-i:len(letters)-i] + `":1`)
		want.WriteString(`,"` + letters[i:i+1] + `":1`)
	}
	if got, want := form(t, "{"+src.String()[1:]+"}", nil), "{"+want.String()[1:]+"}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	err := canon.Valid([]byte("{"+src.String()[1:]+`,"k":2}`), nil)
	if kind(err) != canon.KindDuplicate {
		t.Errorf("duplicate among many: got %v", err)
	}
}

func TestAppendKeepsDst(t *testing.T) {
	t.Parallel()
	got, err := canon.Append([]byte("fp1:"), []byte(`{"b":1,"a":{"d":1,"c":2}}`), nil)
	if err != nil || string(got) != `fp1:{"a":{"c":2,"d":1},"b":1}` {
		t.Errorf("got %q, %v", got, err)
	}
	got, err = canon.Append([]byte("fp1:"), []byte(`{"b":1,`), nil)
	if err == nil || string(got) != "fp1:" {
		t.Errorf("after an error got %q, %v", got, err)
	}
}

// What people send twice and mean once, and what looks alike and is not.
func TestSameAndDifferent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, a, b string
		same       bool
	}{
		{"member order", `{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
		{"nested member order", `{"o":[{"a":1,"b":2}]}`, `{"o":[{"b":2,"a":1}]}`, true},
		{"white space", `{"a":[1,2]}`, "{ \"a\" : [1 ,\n2] }", true},
		{"escape style", `{"a":"é/"}`, `{"\u0061":"\u00E9\/"}`, true},
		{"float and int of one value", `12345.0`, `12345`, true},
		{"exponent", `1`, `10e-1`, true},
		{"trailing zeros", `{"amount":99.90}`, `{"amount":99.9}`, true},
		{"minus zero", `-0.0`, `0`, true},
		{"beyond 2^53", `9007199254740993`, `9007199254740992`, false},
		{"beyond 2^53 as a fraction", `9007199254740993.0`, `9007199254740992.0`, false},
		{"beyond 2^53, two spellings", `9007199254740993.0`, `9007199254740993`, true},
		{"beyond int64", `9223372036854775808`, `9223372036854775809`, false},
		{"beyond float64 precision", `0.1000000000000000055511151231257827`, `0.1`, false},
		{"small is not zero", `1e-400`, `0`, false},
		{"null and absent", `{"a":null}`, `{}`, false},
		{"string and number", `"1"`, `1`, false},
		{"true and string", `true`, `"true"`, false},
		{"array order", `[1,2]`, `[2,1]`, false},
		{"array and element", `[1]`, `1`, false},
		{"empty array and null", `[]`, `null`, false},
		{"case", `"A@example.com"`, `"a@example.com"`, false},
		{"NFC and NFD", "\"\u00e9\"", "\"e\u0301\"", false},
		{"angstrom sign", "\"\u00c5\"", "\"\u212b\"", false},
		{"offset", `"2026-01-01T00:00:00Z"`, `"2026-01-01T01:00:00+01:00"`, false},
		{"where a member is", `{"a":{"b":1},"c":2}`, `{"a":{"b":1,"c":2}}`, false},
		{"quote in a name", `{"a\":1,\"b":2}`, `{"a":1,"b":2}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a, b := form(t, tc.a, nil), form(t, tc.b, nil)
			if (a == b) != tc.same {
				t.Errorf("%s gives %s, %s gives %s; same: want %v", tc.a, a, tc.b, b, tc.same)
			}
			diff, err := canon.Diff([]byte(tc.a), []byte(tc.b), nil)
			if err != nil || (len(diff) == 0) != tc.same {
				t.Errorf("Diff(%s, %s) = %q, %v", tc.a, tc.b, diff, err)
			}
		})
	}
}

// kind gives the Kind of a refusal, "" for other errors and none.
func kind(err error) canon.Kind {
	if se, ok := errors.AsType[*canon.SyntaxError](err); ok {
		return se.Kind
	}
	return ""
}
