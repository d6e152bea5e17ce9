package components

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"towtank.example/boutique/internal/shop"
)

// Payment looks at cards as a bank would, and charges nobody.
type Payment struct{ now func() time.Time }

// NewPayment knows what day it is.
func NewPayment() *Payment { return &Payment{time.Now} }

// Charge refuses an amount of nothing, a number that fails its check digit and a card that is over (InvalidArgument).
func (p *Payment) Charge(_ context.Context, in *shop.ChargeRequest) (*shop.ChargeResponse, error) {
	card, now := in.GetCard(), p.now()
	var reason string
	switch {
	case in.GetAmount().GetHundredths() <= 0:
		reason = "there is nothing to charge"
	case !isCardNumber(card.GetNumber()):
		reason = "this is no card's number"
	case card.GetMonth() < 1 || card.GetMonth() > 12:
		reason = "a month is 1 to 12"
	case int(card.GetYear())*12+int(card.GetMonth()) < now.Year()*12+int(now.Month()):
		reason = "the card is no longer valid"
	default:
		return &shop.ChargeResponse{TransactionId: uuid.NewString()}, nil
	}
	return nil, connect.NewError(connect.CodeInvalidArgument, errors.New(reason))
}

// isCardNumber checks the last digit by Luhn's formula (ISO/IEC 7812-1); spaces and dashes between digits do not matter.
func isCardNumber(text string) bool {
	sum, digits := 0, 0
	for i := len(text) - 1; i >= 0; i-- {
		if text[i] == ' ' || text[i] == '-' {
			continue
		}
		if text[i] < '0' || text[i] > '9' {
			return false
		}
		digit := int(text[i] - '0')
		if digits%2 == 1 {
			if digit *= 2; digit > 9 {
				digit -= 9
			}
		}
		sum, digits = sum+digit, digits+1
	}
	return digits >= 12 && digits <= 19 && sum%10 == 0
}
