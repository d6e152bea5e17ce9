package api

import (
	"context"
	"errors"
	"net/http"

	"towtank/apps/iot/access"
	"towtank/apps/iot/entities"
)

func (p *Platform) addConsumer(ctx context.Context, in Input) (Output, error) {
	userID, err := p.owner(ctx, in)
	if err != nil {
		return Output{}, err
	}
	given, err := in.described()
	if err != nil {
		return Output{}, err
	}
	consumer, err := p.Entities.AddConsumer(ctx, entities.Consumer{
		UserID: userID, Name: given.Name, Description: given.Description, JWTKey: access.NewKey(),
	})
	if err == nil {
		consumer.Token, err = p.Tokens.ForConsumer(consumer)
	}
	return Output{Status: http.StatusCreated, Body: consumer}, err
}

// addGrant lets a consumer of a user read a sensor of the same user.
func (p *Platform) addGrant(ctx context.Context, in Input) (Output, error) {
	userID, err := p.owner(ctx, in)
	if err != nil {
		return Output{}, err
	}
	consumerID, err := in.id("consumer_id")
	if err != nil {
		return Output{}, err
	}
	sensorID, err := in.id("sensor_id")
	if err != nil {
		return Output{}, err
	}
	consumer, err := p.Entities.Consumer(ctx, consumerID)
	if errors.Is(err, entities.ErrNotFound) || err == nil && consumer.UserID != userID {
		return Output{}, refuse(http.StatusNotFound, "user %d has no consumer %d", userID, consumerID)
	} else if err != nil {
		return Output{}, err
	}
	if err := p.mustOwn(ctx, userID, sensorID); err != nil {
		return Output{}, err
	}
	err = p.Entities.Grant(ctx, consumerID, sensorID)
	return Output{Status: http.StatusOK, Body: map[string]int64{"consumer_id": consumerID, "sensor_id": sensorID}}, err
}
