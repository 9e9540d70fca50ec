package justonce

// An Answer is how an operation stands, as told to one caller. The operation
// is shared between callers and must not be changed.
type Answer struct {
	Operation *Operation
	Replayed  bool  // the recorded result of an earlier call
	Joined    bool  // waited for an earlier call that had not ended
	MatchedBy Match // by what this call met the operation; "" for the first
}

// Err returns nil if the operation succeeded, else a *[StateError].
func (a *Answer) Err() error {
	if a.Operation.State == Succeeded {
		return nil
	}
	return &StateError{Answer: a}
}

// An AdviceCode tells a program what to do with an answer.
type AdviceCode string

const (
	AdviceDone         AdviceCode = "done"
	AdviceWait         AdviceCode = "wait"
	AdviceDoNotRetry   AdviceCode = "do_not_retry"
	AdviceFixArguments AdviceCode = "fix_arguments"
	AdviceAskAPerson   AdviceCode = "ask_a_person"
)

// CodeNotBuilt is the failure code of a connector that could not build its
// request from the arguments; nothing was sent.
const CodeNotBuilt = "request_not_built"

// Advice says what to do next, with one sentence that a model can act on.
type Advice struct {
	Code AdviceCode `json:"code"`
	Text string     `json:"text"`
}

// Advice returns the advice for a.
func (a *Answer) Advice() Advice {
	op := a.Operation
	if op.Key == "" && op.State == Unknown { // a tool whose repetition is harmless
		return Advice{AdviceWait, "The answer was lost. Repeating this tool is harmless: call it again in a while."}
	}
	switch op.State {
	case Succeeded:
		switch {
		case (op.Result == nil || string(op.Result) == "null") && op.Note != "":
			return Advice{AdviceDone, "This was done; " + op.Note + ". Do not call again."}
		case a.Replayed:
			return Advice{AdviceDone, "This was already done; this is the recorded result. Do not call again."}
		}
		return Advice{AdviceDone, "This is done. Do not call again."}
	case Failed:
		switch op.Reason {
		case ReasonRejected:
			if op.Failure != nil && op.Failure.Code == CodeNotBuilt {
				return Advice{AdviceDoNotRetry, "The request could not be built and nothing was sent: most likely the tool is declared wrongly. Do not call again; a person corrects the declaration and redrives this operation."}
			}
			return Advice{AdviceFixArguments, "The provider refused it and nothing happened. This key and identity stand for the refused call: to try with other arguments, call with the next intent_seq or another key."}
		case ReasonCancelled:
			if op.Note == NoteWithdrawn {
				return Advice{AdviceWait, "Nothing was sent, or what was sent had no effect, and nobody sends it by itself. It may be called again, with the same key, too."}
			}
			return Advice{AdviceDoNotRetry, "It was cancelled: somebody decided that it did not happen and shall not. Do not call again unless you are asked to."}
		}
		return Advice{AdviceDoNotRetry, "It could not be executed and nothing happened. Do not call again; a person can redrive it."}
	case Review:
		return Advice{AdviceAskAPerson, "It may or may not have happened and nothing can tell; a person decides. Do not call again and do not assume either."}
	case Unknown:
		return Advice{AdviceWait, "It was sent and the answer was lost; the provider is being asked. Do not call with other arguments or another key; ask for this key again later."}
	case Running:
		if op.Accepted {
			return Advice{AdviceWait, "The provider is working on it. Ask for this key again later; do not start it again."}
		}
		return Advice{AdviceWait, "It is being executed. Ask for this key again later; do not start it again."}
	}
	return Advice{AdviceWait, "It is recorded and will be executed. Ask for this key again later; do not start it again."}
}
