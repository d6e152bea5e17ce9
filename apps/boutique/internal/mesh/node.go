// Package mesh is what lies between components: a call is a function call where both share a process, and a remote one elsewhere. It
// counts every call, and retries, breaks circuits and fails calls on purpose where an edge says so. Components know nothing of it.
package mesh

import (
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/trace"
)

// Config says which process of which placement this is.
type Config struct {
	// Process is its name, Index its number among its replicas.
	Process string
	Index   int
	// Addresses has, for each component, the base URLs of all replicas of its process; also for components of this process.
	Addresses map[string][]string
	// Keyed are components that keep something of a user: all calls for one user go to one replica.
	Keyed map[string]bool
	// Policies of edges.
	Policies Policies
	// Tracer makes spans; nil for none.
	Tracer trace.Tracer
}

// Node is one process: the components that it hosts, and its edges to all others.
type Node struct {
	config    Config
	hosted    map[string]any
	handlers  map[string]http.Handler
	metrics   *metrics
	transport http.RoundTripper
	problems  []error
}

// NewNode makes a process without components.
func NewNode(config Config) *Node {
	return &Node{
		config:    config,
		hosted:    map[string]any{},
		handlers:  map[string]http.Handler{},
		metrics:   newMetrics(),
		transport: newTransport(),
	}
}

// Host adds a component to the process. Those that it calls in this process have to be there already.
func (n *Node) Host(name string, component any, path string, handler http.Handler) {
	n.hosted[name] = component
	n.handlers[path] = handler
}

// HandlerOptions are those of every remote interface.
func (n *Node) HandlerOptions() []connect.HandlerOption {
	return []connect.HandlerOption{connect.WithReadMaxBytes(mostBytes), connect.WithInterceptors(n.tracing())}
}

// Routes adds the remote interfaces of hosted components, /metrics and /health to a mux.
func (n *Node) Routes(mux *http.ServeMux) {
	for path, handler := range n.handlers {
		mux.Handle(path, handler)
	}
	mux.Handle("GET /metrics", n.metrics.handler())
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%s-%d is up\n", n.config.Process, n.config.Index)
	})
}

// Err says what was missing when edges were made.
func (n *Node) Err() error { return errors.Join(n.problems...) }

// Connect makes the edge from one component to another: by a function call if this process hosts it, else by clients that
// `remote` makes. What is missing is in the node's Err.
func Connect[T any](n *Node, from, to string, remote func(connect.HTTPClient, string, ...connect.ClientOption) T) *Edge[T] {
	edge := &Edge[T]{
		node: n, from: from, to: to, keyed: n.config.Keyed[to], index: n.config.Index,
		policy: n.config.Policies.Of(from, to),
	}
	if component, ok := n.hosted[to]; ok {
		edge.here, edge.hosted, edge.near = component.(T), true, n.metrics.edge(from, to, local)
	}
	addresses := n.config.Addresses[to]
	if edge.hosted && (!edge.keyed || len(addresses) <= 1) {
		return edge
	}
	if len(addresses) == 0 {
		n.problems = append(n.problems, fmt.Errorf("process %s: no address of component %q, which %q calls; give --address PROCESS=URL of its process", n.config.Process, to, from))
	}
	edge.far = n.metrics.edge(from, to, remotely)
	edge.guard = edge.policy.guard(edge.far)
	client := &http.Client{Transport: counted{n.transport, edge.far}}
	for _, address := range addresses {
		edge.there = append(edge.there, remote(client, address, connect.WithReadMaxBytes(mostBytes), connect.WithInterceptors(n.tracing())))
	}
	return edge
}
