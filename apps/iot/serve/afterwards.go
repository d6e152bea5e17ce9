package serve

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"towtank/apps/iot/api"
)

const (
	firstPause = 200 * time.Millisecond
	mostPause  = 5 * time.Second
	atOnce     = 8
)

// Afterwards does the rest of requests after their answers, as a microservice may. What fails is repeated until the service ends;
// what is left then is done by the next core instance when it reconciles.
type Afterwards struct {
	ending context.Context
	slots  chan struct{}
	begun  sync.WaitGroup
}

// NewAfterwards returns one whose repetitions stop when `ending` does.
func NewAfterwards(ending context.Context) *Afterwards {
	return &Afterwards{ending: ending, slots: make(chan struct{}, atOnce)}
}

// Do begins the rest on its own time; it never fails.
func (a *Afterwards) Do(ctx context.Context, rest *api.Rest) error {
	detached := trace.ContextWithSpanContext(context.Background(), trace.SpanContextFromContext(ctx))
	a.begun.Add(1)
	go func() {
		defer a.begun.Done()
		a.slots <- struct{}{}
		defer func() { <-a.slots }()
		for pause := firstPause; ; pause = min(2*pause, mostPause) {
			err := rest.Do(detached)
			if err == nil {
				return
			}
			slog.Warn("the rest of an answered request failed; trying again", "in", pause, "error", err)
			select {
			case <-a.ending.Done():
				slog.Warn("the rest of an answered request is left to the next core instance", "error", err)
				return
			case <-time.After(pause):
			}
		}
	}()
	return nil
}

// Wait returns when everything that was begun is done or given up.
func (a *Afterwards) Wait() { a.begun.Wait() }
