package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"towtank/apps/iot/entities"
)

// ErrBadToken is a token that does not hold: wrong, changed, expired, or of somebody who is not there.
var ErrBadToken = errors.New("the token is not valid")

// Kind is what a token stands for.
type Kind string

// Kinds of callers.
const (
	Nobody     Kind = ""
	OfUser     Kind = "user"
	OfDevice   Kind = "device"
	OfConsumer Kind = "consumer"
)

// Caller is who sent a request.
type Caller struct {
	Kind Kind   `json:"kind"`
	ID   int64  `json:"id"`
	Role string `json:"role,omitempty"`
}

type claims struct {
	Kind Kind   `json:"kind"`
	Role string `json:"role,omitempty"`
	jwt.RegisteredClaims
}

// keys finds the key of a device or consumer.
type keys interface {
	Device(ctx context.Context, id int64) (entities.Device, error)
	Consumer(ctx context.Context, id int64) (entities.Consumer, error)
}

// Tokens makes and checks JWTs (HS256). A user's is signed with the platform's secret and checked without a store; those of
// devices and consumers are signed with their own keys, which are looked up each time: nothing is cached.
type Tokens struct {
	secret   []byte
	lifetime time.Duration
	keys     keys
}

// NewTokens returns tokens; the secret must have 32 bytes or more, as RFC 7518 asks for HS256.
func NewTokens(secret string, lifetime time.Duration, keys keys) (*Tokens, error) {
	if len(secret) < 32 {
		return nil, fmt.Errorf("the secret for tokens has %d bytes; at least 32 are needed: set IOT_SECRET", len(secret))
	}
	return &Tokens{secret: []byte(secret), lifetime: lifetime, keys: keys}, nil
}

// NewKey returns a key for a device or consumer.
func NewKey() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails, as its documentation says
	return hex.EncodeToString(key)
}

// DerivedKey returns the key of the device or consumer of a number that is seeded: the same for the same secret.
func (t *Tokens) DerivedKey(kind Kind, number int) string {
	code := hmac.New(sha256.New, t.secret)
	fmt.Fprintf(code, "%s %d", kind, number)
	return hex.EncodeToString(code.Sum(nil))
}

// ForUser returns a token that ends after the lifetime.
func (t *Tokens) ForUser(user entities.User) (string, error) {
	return t.ForUserUntil(user, time.Now().Add(t.lifetime))
}

// ForUserUntil returns a token that ends at a given time.
func (t *Tokens) ForUserUntil(user entities.User, end time.Time) (string, error) {
	return sign(t.secret, claims{Kind: OfUser, Role: user.Role, RegisteredClaims: jwt.RegisteredClaims{
		Subject: strconv.FormatInt(user.ID, 10), ExpiresAt: jwt.NewNumericDate(end),
	}})
}

// ForDevice returns the device's token; it holds as long as its key.
func (t *Tokens) ForDevice(device entities.Device) (string, error) {
	return ownToken(OfDevice, device.ID, device.JWTKey)
}

// ForConsumer returns the consumer's token; it holds as long as its key.
func (t *Tokens) ForConsumer(consumer entities.Consumer) (string, error) {
	return ownToken(OfConsumer, consumer.ID, consumer.JWTKey)
}

func ownToken(kind Kind, id int64, key string) (string, error) {
	return sign([]byte(key), claims{Kind: kind, RegisteredClaims: jwt.RegisteredClaims{Subject: strconv.FormatInt(id, 10)}})
}

func sign(key []byte, content claims) (string, error) {
	return jwt.NewWithClaims(jwt.SigningMethodHS256, content).SignedString(key)
}

// Caller returns whose token this is: ErrBadToken, or an error of the store that could not be asked for a key.
func (t *Tokens) Caller(ctx context.Context, token string) (Caller, error) {
	var content claims
	var away error
	_, err := jwt.ParseWithClaims(token, &content, func(*jwt.Token) (any, error) {
		key, err := t.keyOf(ctx, &content)
		if err != nil && !errors.Is(err, entities.ErrNotFound) && !errors.Is(err, ErrBadToken) {
			away = err
		}
		return key, err
	}, jwt.WithValidMethods([]string{"HS256"}))
	if away != nil {
		return Caller{}, away
	}
	id, numberErr := strconv.ParseInt(content.Subject, 10, 64)
	if err != nil || numberErr != nil {
		return Caller{}, ErrBadToken
	}
	return Caller{Kind: content.Kind, ID: id, Role: content.Role}, nil
}

func (t *Tokens) keyOf(ctx context.Context, content *claims) ([]byte, error) {
	id, err := strconv.ParseInt(content.Subject, 10, 64)
	if err != nil {
		return nil, ErrBadToken
	}
	switch content.Kind {
	case OfUser:
		if content.ExpiresAt == nil {
			return nil, ErrBadToken
		}
		return t.secret, nil
	case OfDevice:
		device, err := t.keys.Device(ctx, id)
		return []byte(device.JWTKey), err
	case OfConsumer:
		consumer, err := t.keys.Consumer(ctx, id)
		return []byte(consumer.JWTKey), err
	}
	return nil, ErrBadToken
}
