package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/redis/rueidis"
)

const (
	// watchEvery is how often the server is asked for its time and settings.
	watchEvery = 5 * time.Second
	// oldestServer is the first major version whose scripts and options suffice.
	oldestServer = 7

	markBegin  = "justonce "
	markFormat = "1"
)

// errGone is what LEDGERGONE, of a script, stands for.
var errGone error = goneError{}

type goneError struct{}

func (goneError) Error() string {
	return "the ledger is gone: somebody has emptied or replaced the database; find out who and restore it, for after a restart nothing that was recorded counts as done"
}

func (goneError) Unwrap() error { return justonce.ErrLedgerGone }

var errReadOnly = errors.New("the ledger was opened to be read only")

// errNoLedger is what Options.Existing makes of a prefix that nobody has.
var errNoLedger = errors.New("there is no ledger under this prefix; if there was one, somebody has emptied the database: restore it first; otherwise serve creates one; or name another database or prefix, such as redis://host:6379/1?prefix=payments")

// claimPrefix reads the marker of the ledger, or makes one. It holds the format
// and a random name, so that a ledger that was emptied is never taken for itself.
func (s *Store) claimPrefix(ctx context.Context) error {
	key := s.at + "ledger"
	get := func() (string, error) {
		return s.client.Do(ctx, s.client.B().Get().Key(key).Build()).ToString()
	}
	mark, err := get()
	if rueidis.IsRedisNil(err) {
		if s.o.Existing || s.o.ReadOnly {
			return errNoLedger
		}
		fresh := markBegin + markFormat + " " + rand.Text()
		err = s.client.Do(ctx, s.client.B().Set().Key(key).Value(fresh).Nx().Build()).Error()
		if err == nil {
			s.o.Logger.Info("ledger: there was none; a new one begins, in which nothing counts as done", "prefix", s.o.Prefix)
		}
		if err == nil || rueidis.IsRedisNil(err) {
			mark, err = get()
		}
	}
	if err != nil {
		return err
	}
	rest, ok := strings.CutPrefix(mark, markBegin)
	format, _, _ := strings.Cut(rest, " ")
	switch {
	case !ok:
		return fmt.Errorf("key %q is not a ledger's: name another prefix", key)
	case format != markFormat:
		return fmt.Errorf("the ledger has format %s and this program knows only %s: use a newer one", format, markFormat)
	}
	s.mark = mark
	return nil
}

// id returns the random name of the ledger.
func (s *Store) id() string { return s.mark[strings.LastIndexByte(s.mark, ' ')+1:] }

// A verdict says why a server must not be used.
type verdict struct{ error }

func (v verdict) Unwrap() error { return v.error }

// checkServer asks every primary whether it will do. A verdict says that one
// will not; any other error that it was not to be learnt.
func (s *Store) checkServer(ctx context.Context) error {
	primaries := 0
	for addr, node := range s.client.Nodes() {
		role, err := role(ctx, node)
		switch {
		case err != nil:
			return err
		case role == "master":
		case s.client.Mode() == rueidis.ClientModeCluster:
			continue
		default:
			return verdict{fmt.Errorf("%s is a %s: name the primary, or Sentinels with master_set", addr, role)}
		}
		primaries++
		if err := s.checkNode(ctx, node); err != nil {
			return err
		}
	}
	if primaries == 0 {
		return errors.New("no primary is known")
	}
	return nil
}

func role(ctx context.Context, node rueidis.Client) (string, error) {
	v, err := node.Do(ctx, node.B().Role().Build()).ToArray()
	if err != nil {
		return "", err
	}
	if len(v) == 0 {
		return "", errors.New("ROLE says nothing")
	}
	return v[0].ToString()
}

func (s *Store) checkNode(ctx context.Context, node rueidis.Client) error {
	info, err := node.Do(ctx, node.B().Info().Section("server", "replication").Build()).ToString()
	if err != nil {
		return err
	}
	version := infoField(info, "redis_version")
	if n, _ := strconv.Atoi(version[:max(0, strings.IndexByte(version, '.'))]); n < oldestServer {
		return verdict{fmt.Errorf("the server has version %q: Redis %d or newer, or Valkey, is needed", version, oldestServer)}
	}
	if s.o.ReadOnly {
		return nil
	}
	if n, _ := strconv.Atoi(infoField(info, "connected_slaves")); n < s.o.MinReplicas && s.client.Mode() != rueidis.ClientModeCluster {
		return verdict{fmt.Errorf("the server has %d replicas and MinReplicas is %d: connect more, or lower it", n, s.o.MinReplicas)}
	}
	settings, err := node.Do(ctx, node.B().ConfigGet().Parameter("appendonly", "appendfsync", "no-appendfsync-on-rewrite", "maxmemory", "maxmemory-policy").Build()).AsStrMap()
	switch code := codeOf(err); {
	case err == nil:
		if err := setting(settings).judge(s.o.AcceptLoss); err != nil {
			return verdict{err}
		}
		return nil
	case code != "NOPERM" && code != "ERR":
		return err
	case slices.Contains(s.o.AcceptLoss, LossUnverified):
		return nil
	}
	return verdict{&forgetfulError{fmt.Sprintf("it does not tell its settings, CONFIG GET: %v", err), "allow CONFIG GET", []Loss{LossUnverified}}}
}

// infoField returns a field of what INFO says, or "".
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// watch keeps the clock, and stops writes while the server may forget, until ctx
// ends.
func (s *Store) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.look(ctx)
		}
	}
}

// look asks once. Where it learns nothing, all stays as it was.
func (s *Store) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	// A server in the place of the ledger's may also be one that forgets.
	err := s.setClock(ctx)
	if !errors.Is(err, errGone) {
		err = cmp.Or(s.checkServer(ctx), err)
	}
	was := s.unsafe.Load()
	switch v := (verdict{}); {
	case err == nil:
		s.unsafe.Store(nil)
		if was != nil && !s.o.ReadOnly {
			s.o.Logger.Info("ledger: the server is safe again; writing")
		}
	case errors.As(err, &v) || errors.Is(err, errGone):
		s.unsafe.Store(&err)
		if was == nil || errors.Is(err, errGone) && !errors.Is(*was, errGone) {
			s.o.Logger.Error("ledger: nothing is written any more", "error", err)
		}
	case ctx.Err() == nil:
		s.o.Logger.Warn("ledger: asking the server for its time and settings", "error", err)
	}
}
