package entities

import (
	"context"
	"database/sql"
)

const (
	selectUsers     = "SELECT id, name, username, password, role FROM users"
	selectDevices   = "SELECT id, user_id, name, description, jwt_key FROM devices"
	selectSensors   = "SELECT id, device_id, name, description FROM sensors"
	selectConsumers = "SELECT id, user_id, name, description, jwt_key FROM consumers"
)

func scanUser(row *sql.Rows, u *User) error {
	return row.Scan(&u.ID, &u.Name, &u.Username, &u.Password, &u.Role)
}

func scanDevice(row *sql.Rows, d *Device) error {
	return row.Scan(&d.ID, &d.UserID, &d.Name, &d.Description, &d.JWTKey)
}

func scanSensor(row *sql.Rows, s *Sensor) error {
	return row.Scan(&s.ID, &s.DeviceID, &s.Name, &s.Description)
}

func scanConsumer(row *sql.Rows, c *Consumer) error {
	return row.Scan(&c.ID, &c.UserID, &c.Name, &c.Description, &c.JWTKey)
}

func scanID(row *sql.Rows, id *int64) error { return row.Scan(id) }

// AddUser implements Store.
func (s *SQL) AddUser(ctx context.Context, u User) (User, error) {
	var err error
	u.ID, err = s.insert(ctx, "INSERT INTO users (name, username, password, role) VALUES (?, ?, ?, ?)", u.Name, u.Username, u.Password, u.Role)
	return u, err
}

// User implements Store.
func (s *SQL) User(ctx context.Context, id int64) (User, error) {
	return one(ctx, s, scanUser, selectUsers+" WHERE id = ?", id)
}

// UserNamed implements Store.
func (s *SQL) UserNamed(ctx context.Context, username string) (User, error) {
	return one(ctx, s, scanUser, selectUsers+" WHERE username = ?", username)
}

// Users implements Store.
func (s *SQL) Users(ctx context.Context) ([]User, error) {
	return all(ctx, s, scanUser, selectUsers+" ORDER BY id")
}

// AddDevice implements Store.
func (s *SQL) AddDevice(ctx context.Context, d Device) (Device, error) {
	var err error
	d.ID, err = s.insert(ctx, "INSERT INTO devices (user_id, name, description, jwt_key) VALUES (?, ?, ?, ?)", d.UserID, d.Name, d.Description, d.JWTKey)
	return d, err
}

// Device implements Store.
func (s *SQL) Device(ctx context.Context, id int64) (Device, error) {
	return one(ctx, s, scanDevice, selectDevices+" WHERE id = ?", id)
}

// DevicesOf implements Store.
func (s *SQL) DevicesOf(ctx context.Context, userID int64) ([]Device, error) {
	return all(ctx, s, scanDevice, selectDevices+" WHERE user_id = ? ORDER BY id", userID)
}

// AddSensor implements Store.
func (s *SQL) AddSensor(ctx context.Context, sensor Sensor) (Sensor, error) {
	var err error
	sensor.ID, err = s.insert(ctx, "INSERT INTO sensors (device_id, name, description) VALUES (?, ?, ?)", sensor.DeviceID, sensor.Name, sensor.Description)
	return sensor, err
}

// RemoveSensor implements Store. The connector goes first, so that none is left without its sensor.
func (s *SQL) RemoveSensor(ctx context.Context, id int64) error {
	if err := s.exec(ctx, "DELETE FROM connectors WHERE sensor_id = ?", id); err != nil {
		return err
	}
	return s.exec(ctx, "DELETE FROM sensors WHERE id = ?", id)
}

// Sensor implements Store.
func (s *SQL) Sensor(ctx context.Context, id int64) (Sensor, error) {
	return one(ctx, s, scanSensor, selectSensors+" WHERE id = ?", id)
}

// SensorsOf implements Store.
func (s *SQL) SensorsOf(ctx context.Context, deviceID int64) ([]Sensor, error) {
	return all(ctx, s, scanSensor, selectSensors+" WHERE device_id = ? ORDER BY id", deviceID)
}

// SensorIDs implements Store.
func (s *SQL) SensorIDs(ctx context.Context) ([]int64, error) {
	return all(ctx, s, scanID, "SELECT id FROM sensors ORDER BY id")
}

// AddConsumer implements Store.
func (s *SQL) AddConsumer(ctx context.Context, c Consumer) (Consumer, error) {
	var err error
	c.ID, err = s.insert(ctx, "INSERT INTO consumers (user_id, name, description, jwt_key) VALUES (?, ?, ?, ?)", c.UserID, c.Name, c.Description, c.JWTKey)
	return c, err
}

// Consumer implements Store.
func (s *SQL) Consumer(ctx context.Context, id int64) (Consumer, error) {
	return one(ctx, s, scanConsumer, selectConsumers+" WHERE id = ?", id)
}

// Grant implements Store.
func (s *SQL) Grant(ctx context.Context, consumerID, sensorID int64) error {
	return s.exec(ctx, s.dialect.ignore+" INTO grants (consumer_id, sensor_id) VALUES (?, ?)", consumerID, sensorID)
}

// IsGranted implements Store.
func (s *SQL) IsGranted(ctx context.Context, consumerID, sensorID int64) (bool, error) {
	found, err := all(ctx, s, scanID, "SELECT sensor_id FROM grants WHERE consumer_id = ? AND sensor_id = ?", consumerID, sensorID)
	return len(found) > 0, err
}

// AddConnector implements Store.
func (s *SQL) AddConnector(ctx context.Context, sensorID int64) error {
	return s.exec(ctx, s.dialect.ignore+" INTO connectors (sensor_id) VALUES (?)", sensorID)
}

// Connectors implements Store.
func (s *SQL) Connectors(ctx context.Context) ([]int64, error) {
	return all(ctx, s, scanID, "SELECT sensor_id FROM connectors ORDER BY sensor_id")
}
