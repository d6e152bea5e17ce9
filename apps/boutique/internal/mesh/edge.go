package mesh

import (
	"context"
	"hash/fnv"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/trace"
)

// Method is one of a component's calls.
type Method struct {
	Name string
	// Repeatable calls may be made again when they may have arrived already.
	Repeatable bool
}

// Edge is the way of calls from one component to another, whose interface is T.
type Edge[T any] struct {
	node     *Node
	from, to string
	keyed    bool
	index    int // of this process among its replicas

	hosted bool
	here   T   // if hosted
	there  []T // clients of all replicas
	next   atomic.Uint64

	near, far *counters
	policy    Policy
	guard     guard
}

// Call makes one call over an edge: `do` is the method, of whatever the edge leads to.
func Call[T, Request, Response any](
	ctx context.Context, e *Edge[T], method Method, in *Request, do func(T, context.Context, *Request) (*Response, error),
) (*Response, error) {
	started := time.Now()
	if e.isNear(in) {
		ctx, span := e.node.span(ctx, e.to+"."+method.Name, trace.SpanKindInternal)
		out, err := do(e.here, ctx, in)
		finish(span, err)
		e.near.done(started, err)
		return out, err
	}
	ctx, span := e.node.span(ctx, e.to+"."+method.Name, trace.SpanKindClient)
	out, err := e.guard.run(ctx, method, func(ctx context.Context) (any, error) {
		e.far.attempts.Inc()
		if e.policy.fails() {
			e.far.faults.Inc()
			return nil, errInjected(e.from, e.to)
		}
		ctx, cancel := context.WithTimeout(ctx, e.policy.Timeout.Duration)
		defer cancel()
		return do(e.choose(in), ctx, in)
	})
	finish(span, err)
	e.far.done(started, err)
	if err != nil {
		return nil, err
	}
	return out.(*Response), nil
}

// isNear says whether a call stays in this process.
func (e *Edge[T]) isNear(in any) bool {
	return e.hosted && (!e.keyed || len(e.there) <= 1 || replicaOf(in, len(e.there)) == e.index)
}

// choose takes the user's replica of a keyed component, and the next one of any other.
func (e *Edge[T]) choose(in any) T {
	if len(e.there) == 1 {
		return e.there[0]
	}
	if e.keyed {
		return e.there[replicaOf(in, len(e.there))]
	}
	return e.there[e.next.Add(1)%uint64(len(e.there))]
}

// replicaOf is the same for one user in every process.
func replicaOf(in any, replicas int) int {
	user, ok := in.(interface{ GetUserId() string })
	if !ok {
		return 0
	}
	hash := fnv.New32a()
	hash.Write([]byte(user.GetUserId()))
	return int(hash.Sum32() % uint32(replicas))
}

func errInjected(from, to string) error {
	return &notSent{connect.NewError(connect.CodeUnavailable, faultError(from+">"+to))}
}

type faultError string

func (edge faultError) Error() string { return "the call over " + string(edge) + " failed on purpose" }
