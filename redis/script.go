package redis

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/justonce-dev/justonce/internal/packed"
	"github.com/redis/rueidis"
)

// A script is run by its hash. The server is given its text where it does not
// know it yet, or no longer.
type script struct{ text, sha string }

// newScript puts what all scripts share in front of text, behind the line that
// tells the server of its kind.
func newScript(text string) *script {
	if line, rest, ok := strings.Cut(text, "\n"); ok && strings.HasPrefix(line, "#!") {
		text = line + "\n" + scriptCommon + rest
	} else {
		text = scriptCommon + text
	}
	return plainScript(text)
}

func plainScript(text string) *script {
	sum := sha1.Sum([]byte(text))
	return &script{text, hex.EncodeToString(sum[:])}
}

//go:embed script/common.lua
var scriptCommon string

//go:embed script/begin.lua
var textBegin string

//go:embed script/update.lua
var textUpdate string

//go:embed script/claim.lua
var textClaim string

//go:embed script/list.lua
var textList string

//go:embed script/held.lua
var textHeld string

//go:embed script/stats.lua
var textStats string

//go:embed script/purge.lua
var textPurge string

//go:embed script/probe.lua
var textProbe string

// The scripts never change.
var (
	scriptBegin  = newScript(textBegin)
	scriptUpdate = newScript(textUpdate)
	scriptClaim  = newScript(textClaim)
	scriptList   = newScript(textList)
	scriptHeld   = newScript(textHeld)
	scriptStats  = newScript(textStats)
	scriptPurge  = newScript(textPurge)
	scriptProbe  = plainScript(textProbe)
)

// build returns the command that runs sc, by its hash or by its text.
func (s *Store) build(sc *script, byText bool, args []string) rueidis.Completed {
	if byText {
		return s.client.B().Eval().Script(sc.text).Numkeys(1).Key(s.at + "ledger").Arg(s.mark).Arg(args...).Build()
	}
	return s.client.B().Evalsha().Sha1(sc.sha).Numkeys(1).Key(s.at + "ledger").Arg(s.mark).Arg(args...).Build()
}

// read runs a script that changes nothing.
func (s *Store) read(ctx context.Context, sc *script, args ...string) (rueidis.RedisMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	return s.run(ctx, sc, args)
}

// run sends a script once. The server answers all that it has read at one time
// with one flush of its file.
func (s *Store) run(ctx context.Context, sc *script, args []string) (rueidis.RedisMessage, error) {
	m, err := s.client.Do(ctx, s.build(sc, false, args)).ToMessage()
	if codeOf(err) == "NOSCRIPT" {
		m, err = s.client.Do(ctx, s.build(sc, true, args)).ToMessage()
	}
	return m, err
}

// write runs a script that writes, and waits for its answer whatever becomes of
// ctx. An error without an answer of the server leaves open whether it was run:
// nothing here sends it again.
func (s *Store) write(ctx context.Context, sc *script, args ...string) (rueidis.RedisMessage, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Timeout)
	defer cancel()
	return s.writeWithin(ctx, sc, args)
}

// writeWithin is write for those who bound it themselves.
func (s *Store) writeWithin(ctx context.Context, sc *script, args []string) (rueidis.RedisMessage, error) {
	if s.o.ReadOnly {
		return rueidis.RedisMessage{}, errReadOnly
	}
	if err := s.unsafe.Load(); err != nil {
		return rueidis.RedisMessage{}, *err
	}
	if s.o.MinReplicas > 0 {
		return s.writeReplicated(ctx, sc, args)
	}
	return s.run(ctx, sc, args)
}

// writeReplicated also waits for the replicas, on a connection of its own: WAIT
// counts who has what this connection wrote.
func (s *Store) writeReplicated(ctx context.Context, sc *script, args []string) (m rueidis.RedisMessage, err error) {
	err = s.client.Dedicated(func(c rueidis.DedicatedClient) error {
		wait := func() rueidis.Completed {
			return c.B().Wait().Numreplicas(int64(s.o.MinReplicas)).Timeout((s.o.Timeout / 2).Milliseconds()).Build()
		}
		all := c.DoMulti(ctx, s.build(sc, false, args), wait())
		if codeOf(all[0].Error()) == "NOSCRIPT" {
			all = c.DoMulti(ctx, s.build(sc, true, args), wait())
		}
		if m, err = all[0].ToMessage(); err != nil {
			return err
		}
		n, err := all[1].AsInt64()
		if err != nil {
			return err
		}
		if n < int64(s.o.MinReplicas) {
			return fmt.Errorf("%d of %d replicas have what was written", n, s.o.MinReplicas)
		}
		return nil
	})
	return m, err
}

// timeArg returns the time to decide by: "" lets the server take its own.
func (s *Store) timeArg() (string, error) {
	if s.o.Now == nil {
		return "", nil
	}
	return timeArg(s.o.Now())
}

func timeArg(t time.Time) (string, error) {
	n, err := packed.Nanos(t, packed.NoTime)
	if err != nil {
		return "", invalid("time", err.Error())
	}
	return timeBytes(n), nil
}

func timeBytes(n int64) string {
	var b [8]byte
	putTime(b[:], n)
	return string(b[:])
}

// answersOf returns what a script answered to each of n.
func answersOf(m rueidis.RedisMessage, n int) ([]rueidis.RedisMessage, error) {
	all, err := m.ToArray()
	if err == nil && len(all) != n {
		err = errAnswer
	}
	return all, err
}

// strs returns what a script answered as a list of strings; nil is "".
func strs(m rueidis.RedisMessage, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	values, err := m.ToArray()
	if err != nil {
		return nil, err
	}
	all := make([]string, len(values))
	for i := range values {
		switch v := &values[i]; {
		case v.IsNil():
		case v.IsInt64():
			n, err := v.AsInt64()
			if err != nil {
				return nil, err
			}
			all[i] = strconv.FormatInt(n, 10)
		default:
			if all[i], err = v.ToString(); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}
