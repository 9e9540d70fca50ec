package main

// A promise is what a group of contestants guarantees. What is said of others
// is what their documents and sources said of these versions.
type promise struct {
	of        string // how the contestants' names begin
	name      string
	crash     string
	unknown   string
	meanwhile string
	later     string
	arguments string
}

var promises = []promise{
	{"floor", "floors", "the key stays begun for ever; nobody recovers it", "not known as such", "polls; a fresh key has one effect", "replay as long as the row is kept", "not compared"},
	{"pgx-naive", "pgx-naive", "as the floors", "not known as such", "polls; one effect", "replay as long as the row is kept", "not compared"},
	{"justonce", "justonce", "the lease ends; the provider is asked, or gets the same key again, or a person decides; never sent blindly", "as after a crash; counted and shown", "joins, across processes too; one effect", "replay as long as the record is kept; after that its tombstone still refuses", "refused, naming the paths that differ"},
	{"redis-setnx", "redis-setnx", "the key stays begun for ever; nobody recovers it; a failover may forget it", "not known as such", "polls; one effect", "replay as long as the key is kept", "not compared"},
	{"dbos", "DBOS", "at the next start the step runs again: two effects unless the provider removes one", "an error like any other: recorded, or tried again if the step says so", "polls; one effect", "replay until the workflow is deleted", "not compared (name and queue are)"},
	{"river", "River", "the job is rescued after an hour and runs again", "an error like any other: tried again, up to 25 times", "no second job; this benchmark's caller waits for the event, in one process", "no second job for 24 hours after completion (default), then a new one", "part of the key where declared; else not compared"},
	{"restate", "Restate", "the step runs again", "an error like any other: tried again until it succeeds, by default", "attaches; one effect", "replay for 24 hours (default)", "not compared"},
	{"temporal", "Temporal", "a local activity runs again; an ordinary one may be limited to one attempt, which then fails", "an error like any other: tried again, by default", "attaches; one effect", "replay for the namespace's retention", "not compared"},
}
