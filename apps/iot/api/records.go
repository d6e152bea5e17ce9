package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"towtank/apps/iot/entities"
	"towtank/apps/iot/records"
)

const (
	maxRecords = 1000
	// MostConsumed is how many records a consumer gets, the newest: bounded, so that an answer does not grow with the load before it.
	MostConsumed = 1000
	maxTimestamp = 253402300799999 // the end of the year 9999
)

// sent is a record as a device sends it; every key must be there.
type sent struct {
	SensorID  *int64   `json:"sensor_id"`
	Value     *float64 `json:"value"`
	Timestamp *int64   `json:"timestamp"`
}

func (p *Platform) takeRecords(ctx context.Context, in Input) (Output, error) {
	taken, err := in.records()
	if err != nil {
		return Output{}, err
	}
	own, err := p.Entities.SensorsOf(ctx, in.Caller.ID)
	if err != nil {
		return Output{}, err
	}
	isOwn := map[int64]bool{}
	for _, sensor := range own {
		isOwn[sensor.ID] = true
	}
	for _, record := range taken {
		if !isOwn[record.SensorID] {
			return Output{}, refuse(http.StatusForbidden, "sensor %d does not belong to this device", record.SensorID)
		}
	}
	if err := p.Log.Append(ctx, taken); errors.Is(err, records.ErrNoTopic) {
		return Output{}, refuse(http.StatusServiceUnavailable, "%v: try again later", records.ErrNoTopic)
	} else if err != nil {
		return Output{}, err
	}
	return Output{Status: http.StatusOK, Body: map[string]int{"accepted": len(taken)}}, nil
}

// records reads one record or a list of them.
func (in Input) records() ([]records.Record, error) {
	var many []sent
	if bytes.HasPrefix(bytes.TrimLeft(in.Body, " \t\r\n"), []byte("[")) {
		if err := in.read(&many); err != nil {
			return nil, err
		}
	} else {
		many = make([]sent, 1)
		if err := in.read(&many[0]); err != nil {
			return nil, err
		}
	}
	if len(many) == 0 || len(many) > maxRecords {
		return nil, refuse(http.StatusBadRequest, "from 1 to %d records may be sent at once, not %d", maxRecords, len(many))
	}
	taken := make([]records.Record, len(many))
	for at, one := range many {
		if one.SensorID == nil || one.Value == nil || one.Timestamp == nil {
			return nil, refuse(http.StatusBadRequest, "record %d must have sensor_id, value and timestamp", at)
		}
		if *one.Timestamp < 0 || *one.Timestamp > maxTimestamp {
			return nil, refuse(http.StatusBadRequest, "record %d: timestamp must be ms since 1970, not %d", at, *one.Timestamp)
		}
		taken[at] = records.Record{SensorID: *one.SensorID, Value: *one.Value, Timestamp: *one.Timestamp}
	}
	return taken, nil
}

func (p *Platform) consume(ctx context.Context, in Input) (Output, error) {
	sensorID, err := in.id("sensor_id")
	if err != nil {
		return Output{}, err
	}
	isGranted, err := p.Entities.IsGranted(ctx, in.Caller.ID, sensorID)
	if err != nil {
		return Output{}, err
	}
	if !isGranted {
		return Output{}, refuse(http.StatusForbidden, "sensor %d was not granted to this consumer", sensorID)
	}
	found, err := p.Index.Newest(ctx, sensorID, MostConsumed)
	return Output{Status: http.StatusOK, Body: map[string]any{"sensor_id": sensorID, "records": found}}, err
}

// mustOwn refuses a sensor of somebody else.
func (p *Platform) mustOwn(ctx context.Context, userID, sensorID int64) error {
	sensor, err := p.Entities.Sensor(ctx, sensorID)
	var device entities.Device
	if err == nil {
		device, err = p.Entities.Device(ctx, sensor.DeviceID)
	}
	if errors.Is(err, entities.ErrNotFound) || err == nil && device.UserID != userID {
		return refuse(http.StatusNotFound, "user %d has no sensor %d", userID, sensorID)
	}
	return err
}
