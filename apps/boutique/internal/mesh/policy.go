package mesh

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"connectrpc.com/connect"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
)

// Duration is written as text in TOML: "2s".
type Duration struct{ time.Duration }

// UnmarshalText reads what time.ParseDuration reads, above 0.
func (d *Duration) UnmarshalText(text []byte) error {
	read, err := time.ParseDuration(string(text))
	if err != nil || read <= 0 {
		return fmt.Errorf("%q is no duration above 0, such as \"50ms\" or \"2s\"", text)
	}
	d.Duration = read
	return nil
}

// Policy is what happens to remote calls over an edge. Calls inside a process know none of it: there is nothing to go wrong.
type Policy struct {
	// Timeout of one attempt.
	Timeout Duration `toml:"timeout"`
	// Retries after the first attempt; 0 for none. Before each is a wait from RetryWait, doubled each time, ± 20 %.
	Retries   int      `toml:"retries"`
	RetryWait Duration `toml:"retry_wait"`
	// Breaker opens when BreakFailures of the last BreakOf attempts failed; BreakWait later one attempt
	// is let through, which closes it or opens it again.
	Breaker       bool     `toml:"breaker"`
	BreakFailures uint     `toml:"break_failures"`
	BreakOf       uint     `toml:"break_of"`
	BreakWait     Duration `toml:"break_wait"`
	// Fault is the share of attempts that fail on purpose, 0 to 1: they are not sent.
	Fault float64 `toml:"fault"`
}

// DefaultPolicy neither retries nor breaks; 5 s is far above any call that is well.
func DefaultPolicy() Policy {
	return Policy{
		Timeout: Duration{5 * time.Second}, RetryWait: Duration{10 * time.Millisecond},
		BreakFailures: 5, BreakOf: 20, BreakWait: Duration{time.Second},
	}
}

// Check says what is wrong with it.
func (p Policy) Check() error {
	switch {
	case p.Retries < 0 || p.Retries > 10:
		return fmt.Errorf("retries: %d; allowed are 0 to 10", p.Retries)
	case !(p.Fault >= 0 && p.Fault <= 1):
		return fmt.Errorf("fault: %v; allowed is a share from 0 to 1", p.Fault)
	case p.BreakFailures < 1 || p.BreakOf < p.BreakFailures:
		return fmt.Errorf("break_failures: %d of break_of %d; allowed is 1 or more, and no more than break_of", p.BreakFailures, p.BreakOf)
	}
	return nil
}

// Policies has the policy of each edge by its name, such as checkout>payment; "*" is that of all others.
type Policies map[string]Policy

// Of is the policy of an edge.
func (p Policies) Of(from, to string) Policy {
	for _, name := range []string{from + ">" + to, "*"} {
		if policy, ok := p[name]; ok {
			return policy
		}
	}
	return DefaultPolicy()
}

func (p Policy) fails() bool { return p.Fault > 0 && rand.Float64() < p.Fault }

// notSent marks an error of a call that never arrived, so that it may be made again whatever it does.
type notSent struct{ error }

func (e *notSent) Unwrap() error { return e.error }

// failed is an attempt's error, with whether another attempt may be made.
type failed struct {
	error
	again bool
}

func (e *failed) Unwrap() error { return e.error }

// guard puts an edge's retries and breaker around attempts.
type guard struct {
	executor failsafe.Executor[any]
	count    *counters
}

func (p Policy) guard(count *counters) guard {
	var policies []failsafe.Policy[any]
	if p.Retries > 0 {
		policies = append(policies, retrypolicy.NewBuilder[any]().
			HandleIf(func(_ any, err error) bool {
				var attempt *failed
				return errors.As(err, &attempt) && attempt.again
			}).
			WithMaxRetries(p.Retries).
			WithBackoff(p.RetryWait.Duration, p.RetryWait.Duration<<p.Retries).
			WithJitterFactor(0.2).
			OnRetry(func(failsafe.ExecutionEvent[any]) { count.retries.Inc() }).
			ReturnLastFailure().
			Build())
	}
	if p.Breaker {
		policies = append(policies, circuitbreaker.NewBuilder[any]().
			HandleIf(func(_ any, err error) bool { return err != nil && isTrouble(err) }).
			WithFailureThresholdRatio(p.BreakFailures, p.BreakOf).
			WithDelay(p.BreakWait.Duration).
			WithSuccessThreshold(1).
			OnOpen(func(circuitbreaker.StateChangedEvent) { count.opened.Inc() }).
			Build())
	}
	if len(policies) == 0 {
		return guard{}
	}
	return guard{failsafe.With(policies...), count}
}

// run makes attempts until one succeeds or no other may be made. What it returns are errors of ConnectRPC.
func (g guard) run(ctx context.Context, method Method, attempt func(context.Context) (any, error)) (any, error) {
	if g.executor == nil {
		out, err := attempt(ctx)
		return out, unmarked(err)
	}
	out, err := g.executor.WithContext(ctx).Get(func() (any, error) {
		out, err := attempt(ctx)
		if err == nil {
			return out, nil
		}
		return nil, &failed{err, isTrouble(err) && ctx.Err() == nil && (method.Repeatable || neverArrived(err))}
	})
	if errors.Is(err, circuitbreaker.ErrOpen) {
		g.count.rejected.Inc()
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("the circuit breaker is open"))
	}
	return out, unmarked(err)
}

// unmarked is the error of ConnectRPC in what the attempts noted about it.
func unmarked(err error) error {
	var known *connect.Error
	if errors.As(err, &known) {
		return known
	}
	return err
}

// isTrouble tells a component that is away or too slow from one that answered no.
func isTrouble(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeInternal, connect.CodeUnknown, connect.CodeResourceExhausted:
		return true
	default:
		return false
	}
}

func neverArrived(err error) bool {
	var injected *notSent
	var network *net.OpError
	return errors.As(err, &injected) || (errors.As(err, &network) && network.Op == "dial")
}
