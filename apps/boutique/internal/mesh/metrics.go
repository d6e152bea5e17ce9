package mesh

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Where a call went, a label of every counter.
const (
	local    = "local"
	remotely = "remote"
)

// metrics counts what went over each edge of a process, as seen by the one who calls.
type metrics struct {
	registry                                                                            *prometheus.Registry
	calls, errors, seconds, attempts, retries, opened, rejected, faults, sent, received *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	vector := func(name, help string) *prometheus.CounterVec {
		counter := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "boutique", Name: name, Help: help}, []string{"from", "to", "where"})
		m.registry.MustRegister(counter)
		return counter
	}
	m.calls = vector("edge_calls_total", "Calls from one component to another, retries not counted.")
	m.errors = vector("edge_errors_total", "Calls that ended with an error, after all attempts.")
	m.seconds = vector("edge_seconds_total", "Time that calls took, retries included.")
	m.attempts = vector("edge_attempts_total", "Attempts at remote calls.")
	m.retries = vector("edge_retries_total", "Attempts after the first of a call.")
	m.opened = vector("edge_breaker_opened_total", "How often the circuit breaker opened.")
	m.rejected = vector("edge_breaker_rejected_total", "Calls that an open circuit breaker did not let through.")
	m.faults = vector("edge_faults_total", "Attempts that failed on purpose.")
	m.sent = vector("edge_sent_bytes_total", "Bodies of remote requests.")
	m.received = vector("edge_received_bytes_total", "Bodies of remote answers.")
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// counters are those of one edge, looked up once.
type counters struct {
	calls, errors, seconds, attempts, retries, opened, rejected, faults, sent, received prometheus.Counter
}

func (m *metrics) edge(from, to, where string) *counters {
	labels := []string{from, to, where}
	return &counters{
		calls: m.calls.WithLabelValues(labels...), errors: m.errors.WithLabelValues(labels...), seconds: m.seconds.WithLabelValues(labels...),
		attempts: m.attempts.WithLabelValues(labels...), retries: m.retries.WithLabelValues(labels...),
		opened: m.opened.WithLabelValues(labels...), rejected: m.rejected.WithLabelValues(labels...), faults: m.faults.WithLabelValues(labels...),
		sent: m.sent.WithLabelValues(labels...), received: m.received.WithLabelValues(labels...),
	}
}

func (c *counters) done(started time.Time, err error) {
	c.calls.Inc()
	c.seconds.Add(time.Since(started).Seconds())
	if err != nil {
		c.errors.Inc()
	}
}
