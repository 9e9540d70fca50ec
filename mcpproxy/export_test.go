package mcpproxy

// Waiting returns how many turns wait for operations.
func (s *Server) Waiting() int {
	s.waiting.mu.Lock()
	defer s.waiting.mu.Unlock()
	n := 0
	for _, list := range s.waiting.m {
		n += len(list)
	}
	return n
}

// Answering returns how many requests of stdio clients the server answers itself
// just now.
func (s *Server) Answering() int {
	return s.relays(func(r *relay) int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.turns)
	})
}

// Unconfirmed returns how many answers were written to stdio clients of which it
// is not known yet whether they arrived.
func (s *Server) Unconfirmed() int {
	return s.relays(func(r *relay) int {
		r.acks.mu.Lock()
		defer r.acks.mu.Unlock()
		return len(r.acks.list)
	})
}

func (s *Server) relays(count func(*relay) int) int {
	s.mu.Lock()
	callers := s.callers
	s.mu.Unlock()
	n := 0
	for _, c := range callers {
		if r, ok := c.(*relay); ok {
			n += count(r)
		}
	}
	return n
}
