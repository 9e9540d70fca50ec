package redis

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Loss is a way in which a server may forget what it has acknowledged. Once an
// operation is forgotten, nothing keeps its effect from happening again: with
// any of these justonce holds its promise only while the server does not crash.
type Loss string

const (
	// LossOfASecond accepts appendfsync everysec: a crash of the machine, or the
	// loss of its power, forgets about the last second, two at worst. Where only
	// the process dies nothing is lost.
	LossOfASecond Loss = "second"
	// LossAtCrash accepts appendonly no, appendfsync no, and
	// no-appendfsync-on-rewrite yes: a crash forgets what was recorded since the
	// last snapshot or flush; without snapshots that is everything, and a restart
	// is enough.
	LossAtCrash Loss = "crash"
	// LossByEviction accepts a maxmemory-policy under which the server deletes
	// any key when its memory is used up, without a word to anybody.
	LossByEviction Loss = "eviction"
	// LossUnverified accepts a server that keeps its settings to itself (CONFIG
	// is not allowed, as with many that are managed by others): it may forget in
	// any of these ways, and nobody checks.
	LossUnverified Loss = "unverified"
)

// Losses returns all that can be accepted.
func Losses() []Loss { return []Loss{LossOfASecond, LossAtCrash, LossByEviction, LossUnverified} }

// check refuses options that mean nothing.
func (o *Options) check() error {
	for _, l := range o.AcceptLoss {
		if !slices.Contains(Losses(), l) {
			return fmt.Errorf("accept_loss: %q is none; there are %s", l, join(Losses(), ", "))
		}
	}
	if strings.ContainsAny(o.Prefix, "{}\x00") {
		return errors.New("prefix: must not contain braces or NUL")
	}
	if o.MinReplicas < 0 {
		return errors.New("min_replicas: must not be negative")
	}
	return nil
}

// join lists losses with what stands between them.
func join(losses []Loss, between string) string {
	names := make([]string, len(losses))
	for i, l := range losses {
		names[i] = string(l)
	}
	return strings.Join(names, between)
}

// A forgetfulError says how a server may forget, and what to do.
type forgetfulError struct {
	how    string
	fix    string // what makes it safe
	losses []Loss // or is to be accepted
}

func (e *forgetfulError) Error() string {
	return fmt.Sprintf("the server may forget operations (%s), whose effects can then happen twice: %s, or accept that with accept_loss=%s in its URL",
		e.how, e.fix, join(e.losses, ","))
}

// A setting is what a server says of itself. A missing one is "".
type setting map[string]string

// judge returns how a server with these settings may forget in ways that are
// not accepted; nil: in none.
func (c setting) judge(accepted []Loss) error {
	var how, fix []string
	var losses []Loss
	find := func(loss Loss, name, safe string) {
		if slices.Contains(accepted, loss) {
			return
		}
		how, fix = append(how, name+" "+c[name]), append(fix, safe)
		if !slices.Contains(losses, loss) {
			losses = append(losses, loss)
		}
	}
	switch {
	case c["appendonly"] != "yes":
		find(LossAtCrash, "appendonly", "appendonly yes and appendfsync always")
	case c["appendfsync"] == "everysec":
		if !slices.Contains(accepted, LossAtCrash) {
			find(LossOfASecond, "appendfsync", "appendfsync always")
		}
	case c["appendfsync"] != "always":
		find(LossAtCrash, "appendfsync", "appendfsync always")
	}
	if c["appendonly"] == "yes" && c["no-appendfsync-on-rewrite"] != "no" {
		find(LossAtCrash, "no-appendfsync-on-rewrite", "no-appendfsync-on-rewrite no")
	}
	// The volatile policies evict keys with a time to live, and ours have none.
	policy := c["maxmemory-policy"]
	if c["maxmemory"] != "0" && policy != "noeviction" && !strings.HasPrefix(policy, "volatile-") {
		find(LossByEviction, "maxmemory-policy", "maxmemory-policy noeviction")
	}
	if how == nil {
		return nil
	}
	return &forgetfulError{strings.Join(how, ", "), "set " + strings.Join(fix, " and "), losses}
}
