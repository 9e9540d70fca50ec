package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Client asks a sandbox in another process what the methods of Provider answer in this one. A
// refusal is an *Error; any other error means that the sandbox was not reached or not understood.
// It never retries.
type Client struct {
	URL  string       // such as http://127.0.0.1:7412, with or without a slash at the end
	HTTP *http.Client // default http.DefaultClient
}

// Inject arms a fault.
func (c *Client) Inject(ctx context.Context, f Fault) error {
	return c.do(ctx, http.MethodPost, "faults", f, nil)
}

// Disarm removes all faults and their counts.
func (c *Client) Disarm(ctx context.Context) error {
	return c.do(ctx, http.MethodDelete, "faults", nil, nil)
}

// Faults returns the armed faults, oldest first.
func (c *Client) Faults(ctx context.Context) ([]Armed, error) {
	var out struct{ Faults []Armed }
	err := c.do(ctx, http.MethodGet, "faults", nil, &out)
	return out.Faults, err
}

// Fired returns how often each kind of fault has struck.
func (c *Client) Fired(ctx context.Context) (map[Kind]int, error) {
	var out struct{ Fired map[Kind]int }
	err := c.do(ctx, http.MethodGet, "faults", nil, &out)
	return out.Fired, err
}

// Effects returns everything done since the start or the last Reset, oldest first.
func (c *Client) Effects(ctx context.Context) ([]Effect, error) {
	var out struct{ Effects []Effect }
	err := c.do(ctx, http.MethodGet, "effects", nil, &out)
	return out.Effects, err
}

// Count returns how many effects a service has had, or all of them for "".
func (c *Client) Count(ctx context.Context, service string) (int, error) {
	var out struct{ Count int }
	path := "effects/count"
	if service != "" {
		path += "?service=" + url.QueryEscape(service)
	}
	err := c.do(ctx, http.MethodGet, path, nil, &out)
	return out.Count, err
}

// Groups sorts all effects by service and the named members of their intent.
func (c *Client) Groups(ctx context.Context, by string) ([]Group, error) {
	return c.groups(ctx, "effects/groups", by)
}

// Duplicates returns the groups with more than one effect.
func (c *Client) Duplicates(ctx context.Context, by string) ([]Group, error) {
	return c.groups(ctx, "effects/duplicates", by)
}

func (c *Client) groups(ctx context.Context, path, by string) ([]Group, error) {
	var out struct{ Groups []Group }
	err := c.do(ctx, http.MethodGet, path+"?by="+url.QueryEscape(by), nil, &out)
	return out.Groups, err
}

// FinishJob ends a running job, or sets its progress.
func (c *Client) FinishJob(ctx context.Context, id string, u JobUpdate) error {
	return c.do(ctx, http.MethodPost, "jobs/"+url.PathEscape(id)+"/finish", u, nil)
}

// Reset forgets all effects, keys, references and jobs.
func (c *Client) Reset(ctx context.Context) error {
	return c.do(ctx, http.MethodDelete, "effects", nil, nil)
}

func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("sandbox client: %w", err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+"/"+path, body)
	if err != nil {
		return fmt.Errorf("sandbox client: %w", err)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("sandbox client: %w", err)
	}
	defer resp.Body.Close()
	dec := json.NewDecoder(resp.Body)
	if resp.StatusCode >= 300 {
		var refusal struct{ Error *Error }
		if err := dec.Decode(&refusal); err != nil || refusal.Error == nil {
			return fmt.Errorf("sandbox client: %s %s: %s", method, path, resp.Status)
		}
		refusal.Error.Status = resp.StatusCode
		return refusal.Error
	}
	if out == nil {
		return nil
	}
	if err := dec.Decode(out); err != nil {
		return fmt.Errorf("sandbox client: %s %s: reading the answer: %w", method, path, err)
	}
	return nil
}
