package sandbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// The names of the services, as Effect.Service and Fault.Service have them.
const (
	Payment = "payment"
	Ticket  = "ticket"
	Mail    = "mail"
	Post    = "post"
	Job     = "job"
)

// service is what tells one kind of effect from another. The order of the table is internal: ids
// and the journal use names.
type service struct {
	index     uint8
	name      string
	path      string
	prefix    string   // of its ids
	reference string   // the body member by which effects can be found
	unique    bool     // whether the reference may be used only once
	keyed     bool     // whether Idempotency-Key means anything
	marker    []string // members that, all equal, make the status page speak of a repeat
	required  []string // members that must be strings and not empty
	status    int      // of a success
	state     string   // "status" of a fresh object
}

var services = [...]service{
	{0, Payment, "payments", "pay", "order_id", false, true, []string{"order_id"}, []string{"currency"}, http.StatusCreated, "succeeded"},
	{1, Ticket, "tickets", "tkt", "external_id", true, false, []string{"external_id"}, []string{"title"}, http.StatusCreated, "open"},
	{2, Mail, "mails", "msg", "to", false, false, []string{"to", "subject"}, []string{"to"}, http.StatusCreated, "sent"},
	{3, Post, "posts", "pst", "channel", false, false, []string{"channel", "text"}, []string{"channel", "text"}, http.StatusCreated, "posted"},
	{4, Job, "jobs", "job", "external_id", false, false, []string{"external_id"}, nil, http.StatusAccepted, "running"},
}

func serviceNamed(name string) *service {
	for i := range services {
		if services[i].name == name {
			return &services[i]
		}
	}
	return nil
}

// checkService answers an *Error unless name is a service, or empty for all of them.
func checkService(name string) *Error {
	if name == "" || serviceNamed(name) != nil {
		return nil
	}
	names := make([]string, len(services))
	for i := range services {
		names[i] = services[i].name
	}
	return errorf(http.StatusBadRequest, "invalid_request_error", "unknown_service",
		"There is no service %q; there are %s.", name, strings.Join(names, ", "))
}

// maxReference bounds references and keys, as real providers do.
const maxReference = 255

// check refuses a body that the service cannot execute. Nothing has happened when it does.
func (s *service) check(fields map[string]any) *Error {
	bad := func(member, want string) *Error {
		return errorf(http.StatusBadRequest, "invalid_request_error", "parameter_invalid", "%s must be %s.", member, want)
	}
	for _, name := range s.required {
		if v, ok := fields[name].(string); !ok || v == "" {
			return bad(name, "a string and not empty")
		}
	}
	if v, ok := fields[s.reference]; ok {
		if text, ok := v.(string); !ok || text == "" || len(text) > maxReference {
			return bad(s.reference, fmt.Sprintf("a string of 1 to %d bytes", maxReference))
		}
	}
	if s.name == Payment {
		number, ok := fields["amount"].(json.Number)
		if !ok {
			return bad("amount", "a number")
		}
		if f, err := number.Float64(); err != nil || f <= 0 {
			return bad("amount", "a number above 0")
		}
	}
	return nil
}

// decline is the provider's considered no: 402, without effect, stored under the key.
func (p *Provider) decline(s *service, fields map[string]any) *Error {
	if s.name != Payment {
		return nil
	}
	if card, _ := fields["card"].(string); card == "declined" {
		return errorf(http.StatusPaymentRequired, "card_error", "card_declined", "The card was declined.")
	}
	number, _ := fields["amount"].(json.Number)
	if f, _ := number.Float64(); f > float64(p.opt.DeclineOver) {
		return errorf(http.StatusPaymentRequired, "card_error", "amount_over_limit",
			"The amount is over the limit of %d.", p.opt.DeclineOver)
	}
	return nil
}

// id names effect seq of a service. The epoch keeps ids of unrelated runs apart.
func (s *service) id(epoch string, seq int64) string {
	return s.prefix + "_" + epoch + "_" + strconv.FormatInt(seq, 10)
}
