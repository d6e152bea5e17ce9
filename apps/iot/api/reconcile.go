package api

import (
	"context"
	"fmt"
	"time"
)

// Reconciled is what a core instance found and made when it started.
type Reconciled struct {
	Sensors, Topics, Indices, Connectors int // Topics, Indices and Connectors: how many were missing and were made
	Took                                 time.Duration
}

// Reconcile makes what is missing for any sensor: what a core instance that ended early did not get to.
func (p *Platform) Reconcile(ctx context.Context) (Reconciled, error) {
	ctx, span := tracer.Start(ctx, "reconcile")
	defer span.End()
	began := time.Now()
	sensors, err := p.Entities.SensorIDs(ctx)
	if err != nil {
		return Reconciled{}, fmt.Errorf("sensors cannot be listed: %w", err)
	}
	done := Reconciled{Sensors: len(sensors)}
	parts := []struct {
		name string
		list func(context.Context) ([]int64, error)
		add  func(context.Context, int64) error
		made *int
	}{
		{"topics", p.Log.Topics, p.Log.AddTopic, &done.Topics},
		{"indices", p.Index.Indices, p.Index.AddIndex, &done.Indices},
		{"connectors", p.Entities.Connectors, p.Entities.AddConnector, &done.Connectors},
	}
	for _, part := range parts {
		present, err := part.list(ctx)
		if err != nil {
			return done, fmt.Errorf("%s cannot be listed: %w", part.name, err)
		}
		isPresent := make(map[int64]bool, len(present))
		for _, id := range present {
			isPresent[id] = true
		}
		for _, id := range sensors {
			if isPresent[id] {
				continue
			}
			if err := part.add(ctx, id); err != nil {
				return done, fmt.Errorf("%s: sensor %d cannot be added: %w", part.name, id, err)
			}
			*part.made++
		}
	}
	done.Took = time.Since(began)
	return done, nil
}
