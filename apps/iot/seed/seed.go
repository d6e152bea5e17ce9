// Package seed fills a platform with what a load needs, and writes that down as a feed: a CSV file with a line for each sensor.
package seed

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"towtank/apps/iot/access"
	"towtank/apps/iot/api"
	"towtank/apps/iot/entities"
	"towtank/apps/iot/records"
)

// Amount is how much there will be. Each user has one consumer, which may read all of the user's sensors.
type Amount struct {
	Users, Devices, Sensors, Records int // devices of a user, sensors of a device, records of a sensor
}

// Columns of the feed.
var Columns = []string{"username", "password", "user_token", "user_id", "device_id", "device_token", "sensor_id", "consumer_id", "consumer_token"}

// SuperUser is the name of the super user; the password is `Password(SuperUser)`.
const SuperUser = "super"

// Password of a seeded user: this is an application to experiment on, and who drives it must be able to sign in.
func Password(username string) string { return "password of " + username }

// tokensEnd is when seeded tokens of users end: a fixed time, so that a feed is the same whenever it is made.
var tokensEnd = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// Fill adds users, devices, sensors, consumers, grants and records to a platform that has no users yet, and returns the feed's lines.
// With the same secret and amount these are always the same: an experiment can be planned with a feed before its data is made.
func Fill(ctx context.Context, p *api.Platform, amount Amount) ([][]string, error) {
	if err := isEmpty(ctx, p); err != nil {
		return nil, err
	}
	usernames := []string{SuperUser}
	for at := range amount.Users {
		usernames = append(usernames, fmt.Sprintf("user-%03d", at+1))
	}
	hashes, err := hashesOf(p.Passwords, usernames)
	if err != nil {
		return nil, err
	}
	f := filler{p: p, amount: amount}
	for at, username := range usernames {
		role := entities.Member
		if at == 0 {
			role = entities.Admin
		}
		user, err := p.Entities.AddUser(ctx, entities.User{Name: username, Username: username, Password: hashes[at], Role: role})
		if err == nil && at > 0 {
			err = f.equip(ctx, user)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", username, err)
		}
	}
	return f.lines, nil
}

// hashesOf hashes everybody's password, as many at once as there are cores: that takes most of the time.
func hashesOf(passwords *access.Passwords, usernames []string) ([]string, error) {
	hashes, failures := make([]string, len(usernames)), make([]error, len(usernames))
	slots, begun := make(chan struct{}, runtime.GOMAXPROCS(0)), sync.WaitGroup{}
	for at, username := range usernames {
		begun.Add(1)
		go func() {
			defer begun.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			hashes[at], failures[at] = passwords.Hash(Password(username))
		}()
	}
	begun.Wait()
	return hashes, errors.Join(failures...)
}

func isEmpty(ctx context.Context, p *api.Platform) error {
	users, err := p.Entities.Users(ctx)
	if err != nil {
		return err
	}
	if len(users) > 0 {
		return fmt.Errorf("the platform has %d users already: seed an empty one, or remove its data first", len(users))
	}
	return nil
}

// filler adds what belongs to users, one after another, so that ids are always the same.
type filler struct {
	p                  *api.Platform
	amount             Amount
	devices, consumers int // so far
	lines              [][]string
}

// equip gives a user a consumer and devices.
func (f *filler) equip(ctx context.Context, user entities.User) error {
	f.consumers++
	consumer, err := f.p.Entities.AddConsumer(ctx, entities.Consumer{
		UserID: user.ID, Name: fmt.Sprintf("consumer %d", f.consumers), JWTKey: f.p.Tokens.DerivedKey(access.OfConsumer, f.consumers),
	})
	if err != nil {
		return err
	}
	token, err := f.p.Tokens.ForUserUntil(user, tokensEnd)
	if err != nil {
		return err
	}
	if consumer.Token, err = f.p.Tokens.ForConsumer(consumer); err != nil {
		return err
	}
	for range f.amount.Devices {
		if err := f.device(ctx, user, token, consumer); err != nil {
			return err
		}
	}
	return nil
}

// device adds a device with its sensors, which the consumer may read.
func (f *filler) device(ctx context.Context, user entities.User, token string, consumer entities.Consumer) error {
	f.devices++
	device, err := f.p.Entities.AddDevice(ctx, entities.Device{
		UserID: user.ID, Name: fmt.Sprintf("device %d", f.devices), JWTKey: f.p.Tokens.DerivedKey(access.OfDevice, f.devices),
	})
	if err != nil {
		return err
	}
	if device.Token, err = f.p.Tokens.ForDevice(device); err != nil {
		return err
	}
	for at := range f.amount.Sensors {
		id, err := f.sensor(ctx, device, at, consumer)
		if err != nil {
			return fmt.Errorf("sensor %d of %s: %w", at+1, device.Name, err)
		}
		f.lines = append(f.lines, []string{
			user.Username, Password(user.Username), token, text(user.ID), text(device.ID), device.Token, text(id), text(consumer.ID), consumer.Token,
		})
	}
	return nil
}

func (f *filler) sensor(ctx context.Context, device entities.Device, number int, consumer entities.Consumer) (int64, error) {
	sensor, err := f.p.Entities.AddSensor(ctx, entities.Sensor{DeviceID: device.ID, Name: fmt.Sprintf("sensor %d", number+1)})
	if err != nil {
		return 0, err
	}
	if err := f.p.Equip(ctx, sensor.ID); err != nil {
		return 0, err
	}
	if err := f.p.Entities.Grant(ctx, consumer.ID, sensor.ID); err != nil {
		return 0, err
	}
	return sensor.ID, f.p.Log.Append(ctx, wave(sensor.ID, f.amount.Records))
}

// wave is a day's temperature at one record a minute, each sensor's a little later than the one before.
func wave(sensorID int64, count int) []records.Record {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	values := make([]records.Record, count)
	for at := range values {
		angle := 2 * math.Pi * float64(at+int(sensorID)) / (24 * 60)
		values[at] = records.Record{
			SensorID: sensorID, Value: math.Round((20+5*math.Sin(angle))*100) / 100, Timestamp: begin.Add(time.Duration(at) * time.Minute).UnixMilli(),
		}
	}
	return values
}

// WaitIndexed returns when every seeded record can be consumed, or the context ends.
func WaitIndexed(ctx context.Context, p *api.Platform, sensors []int64, each int) error {
	for _, sensorID := range sensors {
		for {
			found, err := p.Index.Newest(ctx, sensorID, each)
			if err == nil && len(found) >= each {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%d of %d records of sensor %d are indexed: is `iot connect` running? %w", len(found), each, sensorID, errors.Join(ctx.Err(), err))
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return nil
}

// Write writes the feed; nobody else may read it, since it holds tokens.
func Write(path string, lines [][]string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("the feed cannot be written: %w", err)
	}
	writer := csv.NewWriter(file)
	err = errors.Join(writer.Write(Columns), writer.WriteAll(lines))
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("the feed %s cannot be written: %w", path, err)
	}
	return nil
}

func text(id int64) string { return strconv.FormatInt(id, 10) }
