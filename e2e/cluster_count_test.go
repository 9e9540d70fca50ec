//go:build unix

package e2e

import "context"

// audit compares one by one what chaos.count compares by what was asked for:
// each operation that succeeded names an effect of its own, for what its client
// asked, and an effect that none names has a person who decides.
func (c *chaos) audit() {
	t := c.t
	t.Helper()
	effects, err := c.sandbox.Effects(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.sandbox.Count(context.Background(), ""); err != nil || n != len(effects) {
		t.Errorf("the provider counts %d effects and lists %d: %v", n, len(effects), err)
	}
	named := map[string]string{}   // key by service and reference
	undecided := map[string]bool{} // by service and what was asked for
	for _, op := range c.operations("") {
		in, known := c.keys[op.Key]
		switch {
		case !known:
			t.Errorf("no client was told of %s %s, which is %s", op.Tool, op.Key, op.State)
		case op.State == "succeeded":
			name := op.Tool + " " + op.Reference
			if other, ok := named[name]; ok {
				t.Errorf("%s is the effect of %s and of %s", name, other, op.Key)
			}
			named[name] = op.Key
		case op.State == "review":
			undecided[in.service+" "+in.effect()] = true
		}
	}
	open := 0
	for _, e := range effects {
		name := e.Service + " " + e.ID
		what, _ := e.Field(effectMember[e.Service])
		if key, ok := named[name]; ok {
			if in := c.keys[key]; in.service != e.Service || in.effect() != what {
				t.Errorf("%s succeeded with %s, which happened for %s and not for %s", key, name, what, in.effect())
			}
			delete(named, name)
			continue
		}
		open++
		if !undecided[e.Service+" "+what] {
			t.Errorf("%s happened for %s, and no operation that succeeded or waits for a person is about it", name, what)
		}
	}
	for name, key := range named {
		t.Errorf("%s succeeded with %s, which the provider has not", key, name)
	}
	t.Logf("%d effects: %d named by the operation that succeeded with it, %d where a person decides", len(effects), len(effects)-open, open)
}
