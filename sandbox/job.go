package sandbox

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// How a job stands.
const (
	JobRunning = "running"
	JobDone    = "done"
	JobFailed  = "failed"
)

// JobUpdate is what somebody says of a running job.
type JobUpdate struct {
	Status   string          `json:"status"`             // JobDone, JobFailed, or JobRunning to report progress
	Progress int             `json:"progress,omitempty"` // percent, of a running job
	Result   json.RawMessage `json:"result,omitempty"`   // of a job that is done; default {"ok":true}
	Error    string          `json:"error,omitempty"`    // of a job that failed
}

// FinishJob ends a running job, or sets its progress. The error is an *Error: 404 for an unknown
// job, 409 for one that has ended, 400 for an update that makes no sense.
func (p *Provider) FinishJob(id string, u JobUpdate) error {
	bad := func(message string) error {
		return errorf(http.StatusBadRequest, "invalid_request_error", "parameter_invalid", "%s", message)
	}
	switch {
	case u.Status != JobRunning && u.Status != JobDone && u.Status != JobFailed:
		return bad("status must be running, done or failed.")
	case u.Progress < 0 || u.Progress > 99 || u.Progress != 0 && u.Status != JobRunning:
		return bad("progress must be 0 to 99, of a running job.")
	case u.Result != nil && (u.Status != JobDone || !json.Valid(u.Result)):
		return bad("result must be JSON, of a job that is done.")
	case u.Error != "" && u.Status != JobFailed:
		return bad("error belongs to a job that failed.")
	}
	job := serviceNamed(Job)
	t, now := p.tally, p.opt.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.viewLocked()
	i, ok := v.find(job, id)
	if !ok {
		return errorf(http.StatusNotFound, "invalid_request_error", "resource_missing", "There is no job with id %q.", id)
	}
	seq := v.base + int64(i) + 1
	if end := p.jobAt(t.ends[seq], v.entries[i].at, now); end.Status != JobRunning {
		return errorf(http.StatusConflict, "invalid_request_error", "job_ended", "The job %s has already ended: %s.", id, end.Status)
	}
	end := jobEnd(u)
	if err := t.append(line{Event: eventJob, Time: now.UTC(), Seq: seq, Job: &end}); err != nil {
		return err
	}
	t.ends[seq] = end
	return nil
}

// jobAt is the state of a job: what was said of it, or what the time makes of it.
func (p *Provider) jobAt(said jobEnd, started int64, now time.Time) jobEnd {
	if said.Status == JobDone || said.Status == JobFailed {
		return finished(said)
	}
	ran := now.Sub(time.Unix(0, started))
	total := p.opt.JobDuration
	if total > 0 && ran >= total {
		return finished(jobEnd{Status: JobDone})
	}
	state := jobEnd{Status: JobRunning, Progress: said.Progress}
	if total > 0 && ran > 0 {
		state.Progress = max(said.Progress, int(100*(float64(ran)/float64(total))))
	}
	state.Progress = min(state.Progress, 99)
	return state
}

func finished(end jobEnd) jobEnd {
	switch {
	case end.Status == JobDone:
		end.Progress = 100
		if end.Result == nil {
			end.Result = json.RawMessage(`{"ok":true}`)
		}
	case end.Error == "":
		end.Error = "the job failed"
	}
	return end
}

func (p *Provider) jobState(v view, i int) jobEnd {
	t := p.tally
	t.mu.Lock()
	said := t.ends[v.base+int64(i)+1]
	t.mu.Unlock()
	return p.jobAt(said, v.entries[i].at, p.opt.Now())
}

func (v view) renderJob(i int, state jobEnd) []byte {
	e := &v.entries[i]
	return append(encode(struct {
		ID         string    `json:"job_id"`
		Object     string    `json:"object"`
		ExternalID string    `json:"external_id,omitempty"`
		CreatedAt  time.Time `json:"created_at"`
		jobEnd
	}{v.id(i), Job, e.ref, time.Unix(0, e.at).UTC(), state}), '\n')
}

func (p *Provider) serveFinish(w http.ResponseWriter, r *http.Request) {
	body, bad := readBody(w, r)
	if bad != nil {
		sendError(w, bad)
		return
	}
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.DisallowUnknownFields()
	var u JobUpdate
	if err := dec.Decode(&u); err != nil {
		sendError(w, errorf(http.StatusBadRequest, "invalid_request_error", "invalid_json", "The update cannot be read: %v.", err))
		return
	}
	id := r.PathValue("id")
	if err := p.FinishJob(id, u); err != nil {
		sendError(w, err.(*Error))
		return
	}
	v := p.tally.view()
	i, ok := v.find(serviceNamed(Job), id)
	if !ok { // reset in between
		notFound(serviceNamed(Job), "id "+id).send(w)
		return
	}
	reply{status: http.StatusOK, body: p.show(v, i)}.send(w)
}
