package components

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"towtank.example/boutique/internal/shop"
)

const (
	shippingBase    = 490 // hundredths of an euro, for anything at all
	shippingPerItem = 55
)

// Shipping says what sending costs, and sends.
type Shipping struct{}

// GetQuote is in euros; nothing for nothing.
func (Shipping) GetQuote(_ context.Context, in *shop.QuoteRequest) (*shop.Money, error) {
	pieces := int64(0)
	for _, item := range in.GetItems() {
		pieces += int64(item.GetQuantity())
	}
	quote := &shop.Money{Currency: baseCurrency}
	if pieces > 0 {
		quote.Hundredths = shippingBase + shippingPerItem*pieces
	}
	return quote, nil
}

// ShipOrder needs an address (InvalidArgument).
func (Shipping) ShipOrder(_ context.Context, in *shop.ShipRequest) (*shop.ShipResponse, error) {
	if in.GetAddress().GetStreet() == "" || in.GetAddress().GetCity() == "" {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("an address needs a street and a city"))
	}
	return &shop.ShipResponse{TrackingId: uuid.NewString()}, nil
}
