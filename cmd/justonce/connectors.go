package main

import (
	"net/http"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/catalog"
	httpconn "github.com/justonce-dev/justonce/connector/http"
	smtpconn "github.com/justonce-dev/justonce/connector/smtp"
)

// connectors are the kinds that justonce.yaml can name. MCP tools are called
// through servers.
func connectors(client *http.Client, servers *mcpServers) map[string]catalog.Connect {
	return map[string]catalog.Connect{
		"http": func(s *catalog.Spec) (justonce.Connector, error) {
			c := httpconn.Config{Capability: s.Policy.Capability}
			if err := s.Decode(&c); err != nil {
				return nil, err
			}
			return httpconn.New(c, &httpconn.Options{Client: client, Secrets: s.Secrets, Now: time.Now})
		},
		"smtp": func(s *catalog.Spec) (justonce.Connector, error) {
			var c smtpconn.Config
			if err := s.Decode(&c); err != nil {
				return nil, err
			}
			return smtpconn.New(c, &smtpconn.Options{Secrets: s.Secrets, Client: client})
		},
		"mcp": servers.connect,
	}
}
