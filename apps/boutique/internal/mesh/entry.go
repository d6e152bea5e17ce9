package mesh

import (
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
)

// Load is whoever asks the first component: the caller of the edge that requests from outside come over.
const Load = "load"

// Entry is the edge over which requests from outside come to a component.
type Entry struct {
	node  *Node
	to    string
	count *counters
}

// Entry makes it.
func (n *Node) Entry(to string) *Entry {
	return &Entry{n, to, n.metrics.edge(Load, to, remotely)}
}

// Count counts a request as a remote call and makes its span; an answer of 500 or more is an error.
func (e *Entry) Count(name string, handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		started := time.Now()
		ctx, span := e.node.arrived(request, e.to+"."+name)
		answer := &countedAnswer{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			e.count.done(started, nil)
			e.count.attempts.Inc()
			e.count.received.Add(float64(answer.bytes))
			e.count.sent.Add(float64(max(0, request.ContentLength)))
			span.SetAttributes(attribute.Int("http.response.status_code", answer.status))
			if answer.status >= http.StatusInternalServerError {
				e.count.errors.Inc()
				span.SetStatus(codes.Error, http.StatusText(answer.status))
			}
			span.End()
		}()
		handler(answer, request.WithContext(ctx))
	}
}

type countedAnswer struct {
	http.ResponseWriter
	status, bytes int
}

func (a *countedAnswer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *countedAnswer) Write(text []byte) (int, error) {
	n, err := a.ResponseWriter.Write(text)
	a.bytes += n
	return n, err
}
