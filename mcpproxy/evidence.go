package mcpproxy

import "io"

// An outlet tells what became of bytes written to a client.
type outlet struct {
	w io.Writer
}

// unread returns how many of the bytes written the client has not taken yet, as
// far as the system can tell; exact is false where only 0 means anything. gone:
// nobody reads any more. known is false where the system tells nothing: what was
// written then counts as read.
func (o outlet) unread() (n int, exact, gone, known bool) {
	f, ok := o.w.(filer)
	if !ok {
		return 0, false, false, false
	}
	return unread(f)
}
