package justonce

// stackNeed is what recording an operation takes of a goroutine's stack, roughly.
const stackNeed = 6 << 10

// growStack makes room on the stack of a goroutine that has just begun. To grow
// while it is all but empty is cheap; otherwise it would be copied twice on the
// way down, each time with all that is on it.
//
//go:noinline
func growStack() {
	if deepest { // never: the room is not to be touched, only to be there
		var room [stackNeed]byte
		fill(&room)
	}
}

//go:noinline
func fill(room *[stackNeed]byte) { room[0] = 1 }

var deepest bool
