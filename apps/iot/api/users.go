package api

import (
	"context"
	"errors"
	"net/http"
	"unicode/utf8"

	"go.opentelemetry.io/otel"

	"towtank/apps/iot/access"
	"towtank/apps/iot/entities"
)

var tracer = otel.Tracer("iot/api")

const (
	maxName        = 255
	maxDescription = 1000
	maxPassword    = 72 // bytes; bcrypt takes no more
)

func (p *Platform) signIn(ctx context.Context, in Input) (Output, error) {
	var given struct {
		Username string `json:"username"`
		Password string `json:"password"`
	}
	if err := in.read(&given); err != nil {
		return Output{}, err
	}
	user, err := p.Entities.UserNamed(ctx, given.Username)
	if err != nil && !errors.Is(err, entities.ErrNotFound) {
		return Output{}, err
	}
	_, span := tracer.Start(ctx, "password check")
	isRight, err := p.Passwords.IsRight(user.Password, given.Password)
	span.End()
	if err != nil {
		return Output{}, err
	}
	if !isRight {
		return Output{}, refuse(http.StatusUnauthorized, "username or password is wrong")
	}
	token, err := p.Tokens.ForUser(user)
	return Output{Status: http.StatusOK, Body: map[string]string{"token": token}}, err
}

func (p *Platform) getUsers(ctx context.Context, in Input) (Output, error) {
	if in.Caller.Role == entities.Admin {
		users, err := p.Entities.Users(ctx)
		return Output{Status: http.StatusOK, Body: users}, err
	}
	user, err := p.Entities.User(ctx, in.Caller.ID)
	if errors.Is(err, entities.ErrNotFound) {
		err = refuse(http.StatusUnauthorized, "%v", access.ErrBadToken)
	}
	return Output{Status: http.StatusOK, Body: user}, err
}

func (p *Platform) addUser(ctx context.Context, in Input) (Output, error) {
	if in.Caller.Role != entities.Admin {
		return Output{}, refuse(http.StatusForbidden, "only the super user may add users")
	}
	var given struct {
		Name     string `json:"name"`
		Username string `json:"username"`
		Password string `json:"password"`
	}
	if err := in.read(&given); err != nil {
		return Output{}, err
	}
	for name, text := range map[string]string{"name": given.Name, "username": given.Username} {
		if err := hasLength(name, text, 1, maxName); err != nil {
			return Output{}, err
		}
	}
	if len(given.Password) < 8 || len(given.Password) > maxPassword {
		return Output{}, refuse(http.StatusBadRequest, "password must have 8 to %d bytes, not %d", maxPassword, len(given.Password))
	}
	hash, err := p.Passwords.Hash(given.Password)
	if err != nil {
		return Output{}, err
	}
	user, err := p.Entities.AddUser(ctx, entities.User{Name: given.Name, Username: given.Username, Password: hash, Role: entities.Member})
	if errors.Is(err, entities.ErrTaken) {
		err = refuse(http.StatusConflict, "the username %q is taken", given.Username)
	}
	return Output{Status: http.StatusCreated, Body: user}, err
}

// owner returns the user in the path, whom only he himself and the super user may ask about.
func (p *Platform) owner(ctx context.Context, in Input) (int64, error) {
	id, err := in.id("user_id")
	if err != nil {
		return 0, err
	}
	if in.Caller.ID == id {
		return id, nil
	}
	if in.Caller.Role != entities.Admin {
		return 0, refuse(http.StatusForbidden, "user %d belongs to somebody else", id)
	}
	if _, err := p.Entities.User(ctx, id); errors.Is(err, entities.ErrNotFound) {
		return 0, refuse(http.StatusNotFound, "there is no user %d", id)
	} else if err != nil {
		return 0, err
	}
	return id, nil
}

// described is the body of everything that has a name and a description.
type described struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

func (in Input) described() (described, error) {
	var given described
	if err := in.read(&given); err != nil {
		return given, err
	}
	if err := hasLength("name", given.Name, 1, maxName); err != nil {
		return given, err
	}
	return given, hasLength("description", given.Description, 0, maxDescription)
}

func hasLength(name, text string, least, most int) error {
	if length := utf8.RuneCountInString(text); length < least || length > most {
		return refuse(http.StatusBadRequest, "%s must have %d to %d characters, not %d", name, least, most, length)
	}
	return nil
}
