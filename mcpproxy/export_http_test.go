package mcpproxy

import "time"

// KeepAlive sets after how long of silence a client gets a comment.
func (h *Handler) KeepAlive(d time.Duration) { h.keepAlive = d }

// Kept returns how many events and answers are kept for clients that are away.
func (h *Handler) Kept() int {
	h.kept.mu.Lock()
	defer h.kept.mu.Unlock()
	return len(h.kept.events) + len(h.kept.delivered) + len(h.kept.parked)
}

// Sessions returns how many there are.
func (h *Handler) Sessions() int {
	b := h.front.(*bridge)
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.sessions)
}
