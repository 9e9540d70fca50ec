package jsonrpc_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]jsonrpc.Message{
		`{"jsonrpc":"2.0","id":1,"method":"a/b","params":{"x": 1}}`: {ID: json.RawMessage("1"), Method: "a/b", Params: json.RawMessage(`{"x": 1}`)},
		` {"params":[],"method":"m","id":"1","jsonrpc":"2.0"} `:     {ID: json.RawMessage(`"1"`), Method: "m", Params: json.RawMessage("[]")},
		`{"jsonrpc":"2.0","\u006dethod":"n"}`:                       {Method: "n"},
		`{"jsonrpc":"2.0","id":-1.5,"result":null}`:                 {ID: json.RawMessage("-1.5"), Result: json.RawMessage("null")},
		`{"jsonrpc":"2.0","id":null,"error":{"code":-1}}`:           {ID: json.RawMessage("null"), Error: json.RawMessage(`{"code":-1}`)},
		`{"jsonrpc":"2.0","method":"n","other":{"id":1}}`:           {Method: "n"},
	} {
		got, err := jsonrpc.Parse([]byte(raw))
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		want.Raw = []byte(raw)
		if d := cmp.Diff(&want, got); d != "" {
			t.Errorf("%s: %s", raw, d)
		}
		if kinds := btoi(got.IsRequest()) + btoi(got.IsNotification()) + btoi(got.IsResponse()); kinds != 1 {
			t.Errorf("%s: is of %d kinds", raw, kinds)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]struct {
		code int
		id   string
		say  string
	}{
		``:                              {jsonrpc.CodeParse, "", "valid JSON"},
		`{"jsonrpc":"2.0"`:              {jsonrpc.CodeParse, "", "valid JSON"},
		`{"jsonrpc":"2.0"}{}`:           {jsonrpc.CodeParse, "", "valid JSON"},
		`1`:                             {jsonrpc.CodeInvalidRequest, "", "object"},
		`{"id":1,"method":"m"}`:         {jsonrpc.CodeInvalidRequest, "1", "2.0"},
		`{"jsonrpc":"1.0","method":""}`: {jsonrpc.CodeInvalidRequest, "", "2.0"},
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}`:                                              {jsonrpc.CodeInvalidRequest, "2", `"id" twice`},
		`{"jsonrpc":"2.0","id":1,"method":"m","\u006dethod":"n"}`:                                   {jsonrpc.CodeInvalidRequest, "1", `"method" twice`},
		`{"jsonrpc":"2.0","id":1,"method":5}`:                                                       {jsonrpc.CodeInvalidRequest, "1", "string"},
		`{"jsonrpc":"2.0","id":1,"method":""}`:                                                      {jsonrpc.CodeInvalidRequest, "1", "string"},
		`{"jsonrpc":"2.0","id":null,"method":"m"}`:                                                  {jsonrpc.CodeInvalidRequest, "", "id"},
		`{"jsonrpc":"2.0","id":{},"method":"m"}`:                                                    {jsonrpc.CodeInvalidRequest, "", "id"},
		`{"jsonrpc":"2.0","id":true,"result":1}`:                                                    {jsonrpc.CodeInvalidRequest, "", "id"},
		`{"jsonrpc":"2.0","id":1}`:                                                                  {jsonrpc.CodeInvalidRequest, "1", "neither"},
		`{"jsonrpc":"2.0","id":1,"method":"m","result":1}`:                                          {jsonrpc.CodeInvalidRequest, "1", "at once"},
		`{"jsonrpc":"2.0","id":1,"error":{},"result":1}`:                                            {jsonrpc.CodeInvalidRequest, "1", "a result and an error"},
		`{"jsonrpc":"2.0","result":1}`:                                                              {jsonrpc.CodeInvalidRequest, "", "no id"},
		`{"jsonrpc":"2.0","` + strings.Repeat("x", 99) + `":1,"` + strings.Repeat("x", 99) + `":1}`: {jsonrpc.CodeInvalidRequest, "", "…"},
	} {
		_, err := jsonrpc.Parse([]byte(raw))
		var e *jsonrpc.Error
		if !errors.As(err, &e) || e.Code != want.code || string(e.ID) != want.id || !strings.Contains(e.Error(), want.say) {
			t.Errorf("%s: got %+v", raw, err)
		}
	}
	if _, err := jsonrpc.Parse([]byte(" [{}]")); !errors.Is(err, jsonrpc.ErrBatch) {
		t.Errorf("a batch: %v", err)
	}
}

func TestIDsCanBeCompared(t *testing.T) {
	t.Parallel()
	key := func(id string) string {
		m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","method":"m","id": ` + id + ` }`))
		if err != nil {
			t.Fatal(err)
		}
		return m.IDKey()
	}
	if got := []string{key("1"), key(`"1"`)}; got[0] != "1" || got[1] != `"1"` {
		t.Errorf("got %q", got)
	}
}

func TestWhatIsBuiltCanBeParsed(t *testing.T) {
	t.Parallel()
	odd := json.RawMessage(`{ "a" : 1.0 }`)
	for want, raw := range map[string][]byte{
		`{"jsonrpc":"2.0","id":7,"result":{ "a" : 1.0 }}`:                       jsonrpc.Response(json.RawMessage("7"), odd),
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}`:    jsonrpc.ErrorResponse(nil, jsonrpc.ErrorObject(jsonrpc.CodeParse, "no", nil)),
		`{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"","data":[1]}}`: jsonrpc.ErrorResponse(json.RawMessage(`"x"`), jsonrpc.ErrorObject(1, "", []int{1})),
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{ "a" : 1.0 }}`:          jsonrpc.Request(json.RawMessage("1"), "m", odd),
		`{"jsonrpc":"2.0","method":"m"}`:                                        jsonrpc.Request(nil, "m", nil),
	} {
		if string(raw) != want {
			t.Errorf("got %s, want %s", raw, want)
		}
		if _, err := jsonrpc.Parse(raw); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if got := jsonrpc.ErrorObject(1, "m", func() {}); string(got) != `{"code":1,"message":"m"}` {
		t.Errorf("data without JSON: %s", got)
	}
}
