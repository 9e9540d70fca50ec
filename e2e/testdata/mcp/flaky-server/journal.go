package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// errDropped: the answer is to be lost.
var errDropped = errors.New("answer dropped")

type server struct {
	journal, faults string
	mu              sync.Mutex // orders faults and journal
}

// entry is one line of the journal.
type entry struct {
	Tool   string                     `json:"tool"`
	Ticket int                        `json:"ticket,omitempty"`
	Title  string                     `json:"title,omitempty"`
	Case   string                     `json:"case_id,omitempty"`
	Text   string                     `json:"text,omitempty"`
	Meta   map[string]json.RawMessage `json:"meta,omitempty"` // as received
}

// append writes e and syncs. It returns the ticket's number.
func (s *server) append(e entry) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, err := s.read()
	if err != nil {
		return 0, err
	}
	if e.Tool == "create_ticket" {
		e.Ticket = 1
		for _, old := range entries {
			e.Ticket = max(e.Ticket, old.Ticket+1)
		}
	}
	line, err := json.Marshal(e)
	if err != nil {
		return 0, err
	}
	f, err := os.OpenFile(s.journal, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	_, err = f.Write(append(line, '\n'))
	return e.Ticket, errors.Join(err, f.Sync(), f.Close())
}

func (s *server) read() ([]entry, error) {
	b, err := os.ReadFile(s.journal)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var entries []entry
	for line := range bytes.Lines(b) {
		var e entry
		if json.Unmarshal(line, &e) == nil {
			entries = append(entries, e)
		}
	}
	return entries, err
}

func (s *server) find(caseID string) ([]object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, err := s.read()
	found := []object{}
	for _, e := range entries {
		if e.Tool == "create_ticket" && e.Case == caseID {
			found = append(found, object{"ticket": e.Ticket, "title": e.Title})
		}
	}
	return found, err
}

// nextFault takes the first fault that waits: its kind and its file, without
// the extension.
func (s *server) nextFault() (kind, name string, err error) {
	if s.faults == "" {
		return "", "", nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	files, err := os.ReadDir(s.faults) // sorted by name
	if err != nil {
		return "", "", err
	}
	for _, f := range files {
		ext := filepath.Ext(f.Name())
		if ext == ".go" {
			continue
		}
		if !strings.Contains(" .drop .exit .wait .lose .fail ", " "+ext+" ") {
			return "", "", fmt.Errorf("%s: no such fault; take .drop, .exit, .wait, .lose or .fail", f.Name())
		}
		path := filepath.Join(s.faults, f.Name())
		return ext[1:], strings.TrimSuffix(path, ext), os.Remove(path)
	}
	return "", "", nil
}

// afterWork is what becomes of the answer.
func (s *server) afterWork(ctx context.Context, fault, name string) error {
	switch fault {
	case "drop":
		return errDropped
	case "exit":
		os.Exit(1)
	case "wait":
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := os.Stat(name + ".go"); err == nil {
				return nil
			}
			select {
			case <-ctx.Done():
				return errDropped
			case <-tick.C:
			}
		}
	}
	return nil
}
