package redis

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// errURL says no more, or it would tell the password.
var errURL = errors.New("it is none; one such as redis://user:password@host:6379/0 is needed, with special characters of the password escaped")

// parameters that a URL may have: ours, and those of the client.
var (
	ownParameters    = []string{"prefix", "accept_loss", "min_replicas"}
	clientParameters = []string{"db", "addr", "master_set", "dial_timeout", "write_timeout", "skip_verify", "protocol", "client_name"}
)

// clientOption reads a URL. It may set o.
func clientOption(dsn string, o *Options) (option rueidis.ClientOption, err error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme == "" {
		return option, errURL
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return option, errURL
	}
	for name := range q {
		if !slices.Contains(ownParameters, name) && !slices.Contains(clientParameters, name) {
			return option, fmt.Errorf("%q is no parameter; there are %s", name, strings.Join(append(slices.Clone(ownParameters), clientParameters...), ", "))
		}
	}
	if q.Has("prefix") {
		o.Prefix = q.Get("prefix")
	}
	if v := q.Get("accept_loss"); v != "" {
		o.AcceptLoss = slices.Clone(o.AcceptLoss)
		for _, l := range strings.Split(v, ",") {
			o.AcceptLoss = append(o.AcceptLoss, Loss(l))
		}
	}
	if q.Has("min_replicas") {
		if o.MinReplicas, err = strconv.Atoi(q.Get("min_replicas")); err != nil {
			return option, fmt.Errorf("min_replicas=%s: must be a number", q.Get("min_replicas"))
		}
	}
	for _, name := range ownParameters {
		q.Del(name)
	}
	u.RawQuery = q.Encode()
	if option, err = rueidis.ParseURL(u.String()); err != nil {
		return option, err // of a parameter, the database or the scheme
	}
	option.DisableCache = true // a row in a cache may be old
	if option.ClientName == "" {
		option.ClientName = "justonce"
	}
	if option.ConnWriteTimeout == 0 {
		option.ConnWriteTimeout = o.Timeout
	}
	// A switch of the primary that was not heard of is noticed by asking.
	option.Sentinel.TopologyRefreshInterval = 5 * time.Second
	return option, nil
}
