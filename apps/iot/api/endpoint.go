// Package api is what the platform does, one endpoint at a time, whoever carries it: a microservice, a function or an action.
package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"towtank/apps/iot/access"
	"towtank/apps/iot/entities"
	"towtank/apps/iot/records"
)

// MaxBodyBytes is what a request's body may have.
const MaxBodyBytes = 1 << 20

// Endpoint is one of the platform's requests.
type Endpoint struct {
	Name    string // as in the study's table; a function is named so
	Method  string
	Path    string      // as http.ServeMux has it
	Caller  access.Kind // whose token it takes
	Service string      // the microservice it belongs to
	Do      func(p *Platform, ctx context.Context, in Input) (Output, error)
}

// Services are the two microservices.
const (
	Core    = "iot-core"
	Gateway = "http-gateway"
)

// Input is a request whose caller is known.
type Input struct {
	Caller access.Caller
	Path   map[string]string
	Body   []byte
}

// Output is an answer. Rest is what is still to do: a microservice does it after it answered, a function before.
type Output struct {
	Status int
	Body   any
	Rest   *Rest
}

// Rest can be repeated. When a function cannot finish it, Undo takes back what the request did, and nothing was acknowledged.
type Rest struct {
	Do   func(context.Context) error
	Undo func(context.Context) error
}

// Refusal is an error for whoever sent the request.
type Refusal struct {
	Status  int
	Message string
}

func (r *Refusal) Error() string { return r.Message }

func refuse(status int, format string, values ...any) error {
	return &Refusal{status, fmt.Sprintf(format, values...)}
}

// TooLarge is what a body of more than MaxBodyBytes is answered.
var TooLarge = &Refusal{http.StatusRequestEntityTooLarge, "a body may have 1 MiB"}

// Away is what is answered when a store cannot be asked; what happened goes to the log, not to the caller.
var Away = &Refusal{http.StatusServiceUnavailable, "a store did not answer: try again later"}

// AsRefusal says what an error is answered with, and whether a store was away.
func AsRefusal(err error) (refusal *Refusal, away bool) {
	if errors.As(err, &refusal) {
		return refusal, false
	}
	return Away, true
}

// Platform is what endpoints work with.
type Platform struct {
	Entities  entities.Store
	Log       records.Log
	Index     records.Index
	Passwords *access.Passwords
	Tokens    *access.Tokens
}

// Bearer returns whose token an Authorization header holds.
func (p *Platform) Bearer(ctx context.Context, header string) (access.Caller, error) {
	scheme, token, found := strings.Cut(header, " ")
	if !found || !strings.EqualFold(scheme, "bearer") {
		return access.Caller{}, refuse(http.StatusUnauthorized, "a token is needed: send Authorization: Bearer TOKEN")
	}
	caller, err := p.Tokens.Caller(ctx, strings.TrimSpace(token))
	if errors.Is(err, access.ErrBadToken) {
		err = refuse(http.StatusUnauthorized, "%v", access.ErrBadToken)
	}
	return caller, err
}

// Admit refuses a caller whose token is of another kind than the endpoint takes.
func (e Endpoint) Admit(caller access.Caller) error {
	switch {
	case caller.Kind == e.Caller || e.Caller == access.Nobody:
		return nil
	case caller.Kind == access.Nobody:
		return refuse(http.StatusUnauthorized, "a %s's token is needed: send Authorization: Bearer TOKEN", e.Caller)
	}
	return refuse(http.StatusForbidden, "this is a %s's token; here a %s's is needed", caller.Kind, e.Caller)
}

// Endpoints are all of the platform's: the eight that the study measures, then those that make what they need.
var Endpoints = []Endpoint{
	{"users-signin", "POST", "/api/users/signin", access.Nobody, Core, (*Platform).signIn},
	{"users-get", "GET", "/api/users/{$}", access.OfUser, Core, (*Platform).getUsers},
	{"devices-add", "POST", "/api/users/{user_id}/devices", access.OfUser, Core, (*Platform).addDevice},
	{"devices-get", "GET", "/api/users/{user_id}/devices", access.OfUser, Core, (*Platform).getDevices},
	{"sensors-add", "POST", "/api/users/{user_id}/devices/{device_id}/sensors", access.OfUser, Core, (*Platform).addSensor},
	{"sensors-get", "GET", "/api/users/{user_id}/devices/{device_id}/sensors", access.OfUser, Core, (*Platform).getSensors},
	{"http-gateway", "POST", "/gateway", access.OfDevice, Gateway, (*Platform).takeRecords},
	{"consumers-consume-get", "GET", "/api/consumers/consume/{sensor_id}", access.OfConsumer, Core, (*Platform).consume},

	{"users-add", "POST", "/api/users/{$}", access.OfUser, Core, (*Platform).addUser},
	{"consumers-add", "POST", "/api/users/{user_id}/consumers", access.OfUser, Core, (*Platform).addConsumer},
	{"grants-add", "PUT", "/api/users/{user_id}/consumers/{consumer_id}/grants/{sensor_id}", access.OfUser, Core, (*Platform).addGrant},
}

// Placeholders are the names in the path, such as user_id.
func (e Endpoint) Placeholders() []string {
	var names []string
	for _, part := range strings.Split(e.Path, "/") {
		if name, isOne := strings.CutPrefix(part, "{"); isOne && part != "{$}" {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

// Named returns the endpoint of a name.
func Named(name string) (Endpoint, error) {
	at := slices.IndexFunc(Endpoints, func(e Endpoint) bool { return e.Name == name })
	if at < 0 {
		known := []string{}
		for _, e := range Endpoints {
			known = append(known, e.Name)
		}
		return Endpoint{}, fmt.Errorf("there is no endpoint %q; known are %s", name, strings.Join(known, ", "))
	}
	return Endpoints[at], nil
}

// read fills `into` from the body: one JSON value without unknown keys.
func (in Input) read(into any) error {
	reader := json.NewDecoder(bytes.NewReader(in.Body))
	reader.DisallowUnknownFields()
	err := reader.Decode(into)
	if err == nil {
		if _, after := reader.Token(); !errors.Is(after, io.EOF) {
			err = errors.New("something follows the JSON value")
		}
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "the body cannot be read: %v", err)
	}
	return nil
}

func (in Input) id(name string) (int64, error) {
	id, err := strconv.ParseInt(in.Path[name], 10, 64)
	if err != nil || id <= 0 {
		return 0, refuse(http.StatusBadRequest, "%s must be a whole number from 1, not %q", name, in.Path[name])
	}
	return id, nil
}
