package storetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
)

// A brokenStore is a way to get a store wrong.
type brokenStore struct {
	wrap     func(s justonce.Store) justonce.Store
	reopen   func(t *testing.T, s justonce.Store, now func() time.Time) justonce.Store // defaults to the same store
	news     bool                                                                      // it tells of changes, as telling
	caughtBy []string
}

// badNews is a store that is wrong in what it tells of changes.
func badNews(f fault, caughtBy ...string) brokenStore {
	return brokenStore{
		wrap:   func(s justonce.Store) justonce.Store { return newTelling(s, f) },
		reopen: reopenTelling, news: true, caughtBy: caughtBy,
	}
}

var brokenStores = map[string]brokenStore{
	"begin is not atomic": {
		wrap:     func(s justonce.Store) justonce.Store { return lookThenBegin{s} },
		caughtBy: []string{"Begin/OneFreshByKey"},
	},
	"open operations are archived": {
		wrap:     func(s justonce.Store) justonce.Store { return forgetsOpen{s} },
		caughtBy: []string{"Archive/NeverWhileOpen"},
	},
	"matches lose their result": {
		wrap:     func(s justonce.Store) justonce.Store { return matchWithoutResult{s} },
		caughtBy: []string{"Begin/MatchCarriesResult", "Model/Walk1"},
	},
	"identities are ignored": {
		wrap:     func(s justonce.Store) justonce.Store { return noIdentity{s} },
		caughtBy: []string{"Begin/MatchesIdentity", "Begin/OneFreshByIdentity", "Model/Walk1"},
	},
	"tenants meet": {
		wrap:     func(s justonce.Store) justonce.Store { return oneTenant{s} },
		caughtBy: []string{"Begin/TenantsNeverMeet", "Get/NotFound"},
	},
	"a match changes what was given": {
		wrap:     func(s justonce.Store) justonce.Store { return versionOfMatch{s} },
		caughtBy: []string{"Begin/MatchesKey"},
	},
	"cancelled calls are acknowledged unrecorded": {
		wrap:     func(s justonce.Store) justonce.Store { return acknowledgesCancelled{s} },
		caughtBy: []string{"Context/DoneBefore", "Context/DeadlineBefore"},
	},
	"versions are not compared": {
		wrap:     func(s justonce.Store) justonce.Store { return noVersions{s} },
		caughtBy: []string{"Update/Stale", "Update/OneOfManyWins", "Race/History1", "Claim/MakesUpdatesStale"},
	},
	"some updates are lost": {
		wrap:     func(s justonce.Store) justonce.Store { return &losesUpdates{Store: s} },
		caughtBy: []string{"Race/History1", "Model/Walk1"},
	},
	"the result is what op says": {
		wrap:     func(s justonce.Store) justonce.Store { return resultOfRow{s} },
		caughtBy: []string{"Update/Result", "Model/Walk1"},
	},
	"references are not exclusive": {
		wrap:     func(s justonce.Store) justonce.Store { return notExclusive{s} },
		caughtBy: []string{"Reference/Taken", "Reference/Race", "Reference/HeldByArchivedAndPurged", "Model/Walk1"},
	},
	"references are looked at first": {
		wrap:     func(s justonce.Store) justonce.Store { return lookThenUpdate{s} },
		caughtBy: []string{"Reference/Race"},
	},
	"claims ignore leases": {
		wrap:     func(s justonce.Store) justonce.Store { return ignoresLeases{s} },
		caughtBy: []string{"Claim/Changes", "Claim/DueBoundary", "Claim/NeverTwice", "Race/History1"},
	},
	"claims ignore tools": {
		wrap: func(s justonce.Store) justonce.Store {
			return claimsWith{s, func(d *justonce.Due) { d.Tools = nil }, nil}
		},
		caughtBy: []string{"Claim/Tools", "Claim/Ref", "Model/Walk1"},
	},
	"claims ignore the limit": {
		wrap: func(s justonce.Store) justonce.Store {
			return claimsWith{s, func(d *justonce.Due) { d.Limit = 1000 }, nil}
		},
		caughtBy: []string{"Claim/Limit", "Model/Walk1"},
	},
	"claims keep what advance refused": {
		wrap:     func(s justonce.Store) justonce.Store { return claimsWith{s, nil, acceptAll} },
		caughtBy: []string{"Claim/Refused", "Model/Walk1"},
	},
	"claims append nothing": {
		wrap:     func(s justonce.Store) justonce.Store { return claimsWith{s, nil, dropEntries} },
		caughtBy: []string{"Claim/Changes", "Race/History1", "Model/Walk1"},
	},
	"cursors are offsets": {
		wrap:     func(s justonce.Store) justonce.Store { return offsets{s} },
		caughtBy: []string{"List/CursorIsStable"},
	},
	"reads share memory": {
		wrap:     func(s justonce.Store) justonce.Store { return newSharing(s) },
		caughtBy: []string{"Values/ReturnedAreNotKept"},
	},
	"bodies are compacted": {
		wrap:     func(s justonce.Store) justonce.Store { return compacts{s} },
		caughtBy: []string{"Values/BodiesByteForByte", "Get/ReturnsResultAndNoArguments"},
	},
	"times are microseconds": {
		wrap:     func(s justonce.Store) justonce.Store { return microseconds{s} },
		caughtBy: []string{"Values/Times", "Update/ReplacesTheRow"},
	},
	"purged operations are gone": {
		wrap:     func(s justonce.Store) justonce.Store { return purgesAll{s} },
		caughtBy: []string{"Purge/LeavesATombstone", "Purge/TombstoneAnswers", "Model/Walk1"},
	},
	"lag counts what has ended": {
		wrap:     func(s justonce.Store) justonce.Store { return lagOfEnded{s} },
		caughtBy: []string{"Stats/Lag"},
	},
	"nothing survives Close": {
		wrap: func(s justonce.Store) justonce.Store { return s },
		reopen: func(t *testing.T, s justonce.Store, now func() time.Time) justonce.Store {
			return inmem.New(&inmem.Options{Now: now})
		},
		caughtBy: []string{"Durable/Everything", "Durable/AcknowledgedBeforeClose", "Shared/OneSeesTheOther"},
	},
	"every process has a cache": {
		wrap: func(s justonce.Store) justonce.Store { return &caching{Store: s} },
		reopen: func(t *testing.T, s justonce.Store, now func() time.Time) justonce.Store {
			return &caching{Store: s.(*caching).Store}
		},
		caughtBy: []string{"Shared/OneSeesTheOther", "Race/History1"},
	},
	"no news comes":                   badNews(silent, "Listen/HearsOfTheOther"),
	"an end is no news":               badNews(silentOfEnds, "Listen/HearsOfTheOther"),
	"news waits and is lost":          badNews(losesLast, "Listen/HearsOfTheLast"),
	"listening does not end":          badNews(neverEnds, "Listen/EndsWithItsContext"),
	"listening ends in an error":      badNews(endsInError, "Listen/EndsWithItsContext"),
	"listening ends at the first cut": badNews(deafAfterCut, "Listen/SurvivesACut"),
}

type (
	ctxT     = context.Context
	opT      = justonce.Operation
	entryT   = justonce.Entry
	advanceT = func(*justonce.Operation, time.Time) ([]justonce.Entry, bool)
)
