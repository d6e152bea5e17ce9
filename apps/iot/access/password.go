// Package access says who somebody is: passwords and tokens.
package access

import (
	"errors"
	"fmt"

	"golang.org/x/crypto/bcrypt"
)

// DefaultCost makes one check of a password take about 100 ms of one core (README.md has what was measured).
const DefaultCost = 11

// Passwords hashes and checks. A hash holds its own cost, so a store may hold several.
type Passwords struct {
	cost  int
	dummy []byte
}

// NewPasswords returns passwords of a cost, as bcrypt counts it: each step doubles the time.
func NewPasswords(cost int) (*Passwords, error) {
	dummy, err := bcrypt.GenerateFromPassword([]byte("nobody's"), cost)
	if err != nil {
		return nil, fmt.Errorf("a cost of %d is not allowed for passwords: %w", cost, err)
	}
	return &Passwords{cost: cost, dummy: dummy}, nil
}

// Hash returns what may be stored. bcrypt refuses passwords of more than 72 bytes.
func (p *Passwords) Hash(password string) (string, error) {
	hash, err := bcrypt.GenerateFromPassword([]byte(password), p.cost)
	return string(hash), err
}

// IsRight checks a password. Without a hash it is wrong and takes as long, so that nobody learns which usernames there are.
func (p *Passwords) IsRight(hash, password string) (bool, error) {
	known := []byte(hash)
	if hash == "" {
		known = p.dummy
	}
	err := bcrypt.CompareHashAndPassword(known, []byte(password))
	if errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) || errors.Is(err, bcrypt.ErrPasswordTooLong) {
		return false, nil
	}
	return err == nil && hash != "", err
}
