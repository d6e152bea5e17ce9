package mesh

import (
	"io"
	"net"
	"net/http"
	"time"
)

// mostBytes bounds one message; the largest here, the whole catalogue, has some kilobytes.
const mostBytes = 1 << 20

// newTransport speaks HTTP/2 without TLS: all calls to a replica share one connection, as gRPC's do.
func newTransport() http.RoundTripper {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{
		Protocols:   &protocols,
		DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
		// A peer that is frozen or cut off is given up, so that calls after it come back find a new connection.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 5 * time.Second},
	}
}

// counted counts the bytes of bodies both ways.
type counted struct {
	http.RoundTripper
	count *counters
}

func (t counted) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.ContentLength > 0 {
		t.count.sent.Add(float64(request.ContentLength))
	}
	response, err := t.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Body = countedBody{response.Body, t.count}
	}
	return response, err
}

type countedBody struct {
	io.ReadCloser
	count *counters
}

func (b countedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.count.received.Add(float64(n))
	return n, err
}
