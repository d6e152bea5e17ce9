package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"towtank/apps/iot/access"
	"towtank/apps/iot/entities"
)

func (p *Platform) addDevice(ctx context.Context, in Input) (Output, error) {
	userID, err := p.owner(ctx, in)
	if err != nil {
		return Output{}, err
	}
	given, err := in.described()
	if err != nil {
		return Output{}, err
	}
	device, err := p.Entities.AddDevice(ctx, entities.Device{
		UserID: userID, Name: given.Name, Description: given.Description, JWTKey: access.NewKey(),
	})
	if err == nil {
		device.Token, err = p.Tokens.ForDevice(device)
	}
	return Output{Status: http.StatusCreated, Body: device}, err
}

func (p *Platform) getDevices(ctx context.Context, in Input) (Output, error) {
	userID, err := p.owner(ctx, in)
	if err != nil {
		return Output{}, err
	}
	devices, err := p.Entities.DevicesOf(ctx, userID)
	for at := 0; err == nil && at < len(devices); at++ {
		devices[at].Token, err = p.Tokens.ForDevice(devices[at])
	}
	return Output{Status: http.StatusOK, Body: devices}, err
}

// device returns the device in the path; it must be the owner's.
func (p *Platform) device(ctx context.Context, in Input) (entities.Device, error) {
	userID, err := p.owner(ctx, in)
	if err != nil {
		return entities.Device{}, err
	}
	id, err := in.id("device_id")
	if err != nil {
		return entities.Device{}, err
	}
	device, err := p.Entities.Device(ctx, id)
	if errors.Is(err, entities.ErrNotFound) || err == nil && device.UserID != userID {
		return device, refuse(http.StatusNotFound, "user %d has no device %d", userID, id)
	}
	return device, err
}

func (p *Platform) addSensor(ctx context.Context, in Input) (Output, error) {
	device, err := p.device(ctx, in)
	if err != nil {
		return Output{}, err
	}
	given, err := in.described()
	if err != nil {
		return Output{}, err
	}
	sensor, err := p.Entities.AddSensor(ctx, entities.Sensor{DeviceID: device.ID, Name: given.Name, Description: given.Description})
	return Output{Status: http.StatusCreated, Body: sensor, Rest: &Rest{
		Do:   func(ctx context.Context) error { return p.Equip(ctx, sensor.ID) },
		Undo: func(ctx context.Context) error { return p.Entities.RemoveSensor(ctx, sensor.ID) },
	}}, err
}

// Equip makes a sensor's topic, index and connector; what is there already stays.
func (p *Platform) Equip(ctx context.Context, sensorID int64) error {
	if err := p.Log.AddTopic(ctx, sensorID); err != nil {
		return fmt.Errorf("the topic of sensor %d cannot be made: %w", sensorID, err)
	}
	if err := p.Index.AddIndex(ctx, sensorID); err != nil {
		return fmt.Errorf("the index of sensor %d cannot be made: %w", sensorID, err)
	}
	if err := p.Entities.AddConnector(ctx, sensorID); err != nil {
		return fmt.Errorf("the connector of sensor %d cannot be made: %w", sensorID, err)
	}
	return nil
}

func (p *Platform) getSensors(ctx context.Context, in Input) (Output, error) {
	device, err := p.device(ctx, in)
	if err != nil {
		return Output{}, err
	}
	sensors, err := p.Entities.SensorsOf(ctx, device.ID)
	return Output{Status: http.StatusOK, Body: sensors}, err
}
