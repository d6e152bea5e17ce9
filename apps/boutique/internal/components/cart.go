package components

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"towtank.example/boutique/internal/shop"
	"towtank.example/boutique/internal/shop/shopedges"
)

const mostOfAProduct = 10

// Cart is what a user means to buy; the cache keeps it.
type Cart struct{ cache shopedges.CartCache }

// NewCart needs the cache.
func NewCart(cache shopedges.CartCache) *Cart { return &Cart{cache} }

// AddItem adds to what is there; InvalidArgument for nobody, nothing, or more than ten.
func (c *Cart) AddItem(ctx context.Context, in *shop.AddItemRequest) (*shop.Done, error) {
	quantity := in.GetItem().GetQuantity()
	switch {
	case in.GetUserId() == "" || in.GetItem().GetProductId() == "":
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("a user and a product are needed"))
	case quantity < 1 || quantity > mostOfAProduct:
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("quantity %d; allowed are 1 to %d", quantity, mostOfAProduct))
	}
	return c.cache.Add(ctx, in)
}

// GetCart is empty for somebody unknown.
func (c *Cart) GetCart(ctx context.Context, in *shop.UserRequest) (*shop.Items, error) {
	return c.cache.Get(ctx, in)
}

// EmptyCart forgets it.
func (c *Cart) EmptyCart(ctx context.Context, in *shop.UserRequest) (*shop.Done, error) {
	return c.cache.Remove(ctx, in)
}
