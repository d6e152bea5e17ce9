// Package entities holds who and what the platform knows: users, devices, sensors, consumers, grants and connectors.
package entities

import (
	"context"
	"errors"
)

// What a store says of an entity; every other error means that the store itself could not be asked.
var (
	ErrNotFound = errors.New("there is no such entity")
	ErrTaken    = errors.New("the name is taken")
)

// Roles of users. There is one super user, whose role is Admin.
const (
	Admin  = "admin"
	Member = "user"
)

// User may sign in and owns devices and consumers.
type User struct {
	ID       int64  `json:"id"`
	Name     string `json:"name"`
	Username string `json:"username"`
	Password string `json:"-"` // its bcrypt hash
	Role     string `json:"role"`
}

// Device sends what its sensors measure. Its tokens are signed with its own key.
type Device struct {
	ID          int64  `json:"id"`
	UserID      int64  `json:"user_id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	JWTKey      string `json:"-"`
	Token       string `json:"token,omitempty"` // made when it is shown, not stored
}

// Sensor belongs to a device; it has a topic, an index and a connector of its own.
type Sensor struct {
	ID          int64  `json:"id"`
	DeviceID    int64  `json:"device_id"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Consumer reads the sensors that it was granted. Its tokens are signed with its own key.
type Consumer struct {
	ID          int64  `json:"id"`
	UserID      int64  `json:"user_id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	JWTKey      string `json:"-"`
	Token       string `json:"token,omitempty"` // made when it is shown, not stored
}

// Store keeps entities. What it was given is on disk when a method returns. Add… return the entity with its id.
type Store interface {
	AddUser(ctx context.Context, user User) (User, error) // ErrTaken
	User(ctx context.Context, id int64) (User, error)     // ErrNotFound
	UserNamed(ctx context.Context, username string) (User, error)
	Users(ctx context.Context) ([]User, error)

	AddDevice(ctx context.Context, device Device) (Device, error)
	Device(ctx context.Context, id int64) (Device, error)
	DevicesOf(ctx context.Context, userID int64) ([]Device, error)

	AddSensor(ctx context.Context, sensor Sensor) (Sensor, error)
	RemoveSensor(ctx context.Context, id int64) error // and its connector
	Sensor(ctx context.Context, id int64) (Sensor, error)
	SensorsOf(ctx context.Context, deviceID int64) ([]Sensor, error)
	SensorIDs(ctx context.Context) ([]int64, error)

	AddConsumer(ctx context.Context, consumer Consumer) (Consumer, error)
	Consumer(ctx context.Context, id int64) (Consumer, error)
	Grant(ctx context.Context, consumerID, sensorID int64) error // again is no error
	IsGranted(ctx context.Context, consumerID, sensorID int64) (bool, error)

	AddConnector(ctx context.Context, sensorID int64) error // again is no error
	Connectors(ctx context.Context) ([]int64, error)        // ids of sensors

	Close() error
}
