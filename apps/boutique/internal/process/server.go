package process

import (
	"net/http"
	"time"
)

// mostStreams are remote calls at once on one connection: as many as users ask at once.
const mostStreams = 10_000

// NewServer speaks HTTP/1.1 with people and HTTP/2 without TLS with other processes.
func NewServer(handler http.Handler) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: handler, Protocols: &protocols, ReadHeaderTimeout: 10 * time.Second,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: mostStreams},
	}
}
