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
