package sandbox

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// The journal is JSON, one line per event, in the order in which things happened.
const (
	eventOpen   = "open"   // first line: the epoch of the ids
	eventEffect = "effect" // an effect, and what its key answers from now on
	eventAnswer = "answer" // a key's answer that came without effect (a decline)
	eventJob    = "job"    // a job ended or moved on by hand
	eventReset  = "reset"  // everything before is forgotten, but sequence numbers go on
)

type line struct {
	Event  string      `json:"event"`
	Time   time.Time   `json:"time"`
	Epoch  string      `json:"epoch,omitempty"`
	Effect *Effect     `json:"effect,omitempty"`
	Seq    int64       `json:"seq,omitempty"` // of the job
	Job    *jobEnd     `json:"job,omitempty"`
	Answer *answerLine `json:"answer,omitempty"`
}

type answerLine struct {
	Key         string    `json:"key"`
	Fingerprint string    `json:"fingerprint"`
	Since       time.Time `json:"since"` // when the key's window began
	Status      int       `json:"status"`
	Body        string    `json:"body,omitempty"` // without effect only
}

func (a answer) line(key string) *answerLine {
	return &answerLine{key, hex.EncodeToString(a.print[:]), time.Unix(0, a.at).UTC(), int(a.status), a.body}
}

type journal struct {
	file   *os.File
	size   int64
	broken error
}

// append leaves the file as it was when it fails; when even that fails, nothing is accepted any more.
func (j *journal) append(l line) error {
	if j.broken != nil {
		return j.broken
	}
	data := append(encode(l), '\n')
	if _, err := j.file.Write(data); err != nil {
		if undo := j.file.Truncate(j.size); undo != nil {
			j.broken = fmt.Errorf("%w; and the half-written line cannot be removed: %v", err, undo)
		}
		return err
	}
	j.size += int64(len(data))
	return nil
}

func (j *journal) close() error { return j.file.Close() }

// open reads a journal back and appends to it from now on.
func (t *tally) open(name string, now time.Time) error {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	j := &journal{file: file}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return errors.Join(err, errors.New("it is not a regular file"))
	}
	if err := t.load(j); err != nil {
		file.Close()
		return err
	}
	t.journal = j
	if j.size == 0 {
		if err := j.append(line{Event: eventOpen, Time: now.UTC(), Epoch: t.epoch}); err != nil {
			file.Close()
			return err
		}
	}
	return nil
}

func (t *tally) load(j *journal) error {
	in := bufio.NewReaderSize(j.file, 1<<16)
	for number := 1; ; number++ {
		data, err := in.ReadBytes('\n')
		if err == io.EOF {
			if len(data) == 0 {
				return nil
			}
			return j.file.Truncate(j.size) // killed while writing: it was never answered
		}
		if err != nil {
			return err
		}
		var l line
		if err := json.Unmarshal(data, &l); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if err := t.replay(l, number == 1); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		j.size += int64(len(data))
	}
}

func (t *tally) replay(l line, first bool) error {
	if first != (l.Event == eventOpen) {
		return fmt.Errorf("a journal has one line %q, its first; this is not a journal of this program", eventOpen)
	}
	switch l.Event {
	case eventOpen:
		t.epoch = l.Epoch
	case eventReset:
		t.clear()
	case eventJob:
		if l.Job == nil {
			return fmt.Errorf("a job without its state")
		}
		t.ends[l.Seq] = *l.Job
	case eventAnswer:
		return t.replayAnswer(l.Answer, -1)
	case eventEffect:
		i, err := t.replayEffect(l.Effect)
		if err != nil || l.Answer == nil {
			return err
		}
		return t.replayAnswer(l.Answer, int32(i))
	default:
		return fmt.Errorf("unknown event %q", l.Event)
	}
	return nil
}

func (t *tally) replayEffect(e *Effect) (int, error) {
	if e == nil {
		return 0, fmt.Errorf("an effect line without effect")
	}
	s := serviceNamed(e.Service)
	if s == nil {
		return 0, fmt.Errorf("unknown service %q", e.Service)
	}
	if want := t.base + int64(len(t.entries)) + 1; e.Seq != want {
		return 0, fmt.Errorf("effect %d where %d was expected; did two processes write to it?", e.Seq, want)
	}
	fields, bad := decodeObject(e.Intent)
	if bad != nil {
		return 0, bad
	}
	return t.add(entry{at: e.Time.UnixNano(), intent: string(e.Intent), key: e.Key, ref: e.Reference,
		fault: e.Fault, sent: uint16(e.Status), service: s.index}, fields), nil
}

func (t *tally) replayAnswer(a *answerLine, effect int32) error {
	if a == nil {
		return fmt.Errorf("an answer line without answer")
	}
	back := answer{at: a.Since.UnixNano(), body: a.Body, effect: effect, status: uint16(a.Status)}
	print, err := hex.DecodeString(a.Fingerprint)
	if err != nil || len(print) != len(back.print) {
		return fmt.Errorf("bad fingerprint %q", a.Fingerprint)
	}
	back.print = fingerprint(print)
	t.keys[a.Key] = back
	return nil
}
