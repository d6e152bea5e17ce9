package components

import (
	"context"
	"errors"
	"log/slog"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"towtank.example/boutique/internal/shop"
	"towtank.example/boutique/internal/shop/shopedges"
)

// Checkout turns a cart into an order.
type Checkout struct {
	Catalogue shopedges.Catalogue
	Cart      shopedges.Cart
	Currency  shopedges.Currency
	Payment   shopedges.Payment
	Shipping  shopedges.Shipping
	Email     shopedges.Email
}

// PlaceOrder prices the cart, charges the card, ships, and empties the cart. An order that is shipped stands, also when the cart could
// not be emptied or the confirmation not be sent. FailedPrecondition for an empty cart.
func (c *Checkout) PlaceOrder(ctx context.Context, in *shop.PlaceOrderRequest) (*shop.Order, error) {
	user := &shop.UserRequest{UserId: in.GetUserId()}
	cart, err := c.Cart.GetCart(ctx, user)
	if err != nil {
		return nil, err
	}
	if len(cart.GetItems()) == 0 {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("the cart is empty"))
	}
	order, err := c.price(ctx, in, cart)
	if err != nil {
		return nil, err
	}
	if _, err := c.Payment.Charge(ctx, &shop.ChargeRequest{Amount: order.GetTotal(), Card: in.GetCard()}); err != nil {
		return nil, err
	}
	shipped, err := c.Shipping.ShipOrder(ctx, &shop.ShipRequest{Address: in.GetAddress(), Items: cart.GetItems()})
	if err != nil {
		return nil, err
	}
	order.TrackingId = shipped.GetTrackingId()
	if _, err := c.Cart.EmptyCart(ctx, user); err != nil {
		slog.Warn("the cart of a shipped order was not emptied", "order", order.GetId(), "error", err)
	}
	if _, err := c.Email.SendConfirmation(ctx, &shop.ConfirmationRequest{Email: in.GetEmail(), Order: order}); err != nil {
		slog.Warn("no confirmation was sent", "order", order.GetId(), "error", err)
	}
	return order, nil
}

// price is the order with all amounts in the user's currency.
func (c *Checkout) price(ctx context.Context, in *shop.PlaceOrderRequest, cart *shop.Items) (*shop.Order, error) {
	quote, err := c.Shipping.GetQuote(ctx, &shop.QuoteRequest{Address: in.GetAddress(), Items: cart.GetItems()})
	if err != nil {
		return nil, err
	}
	shipping, err := c.Currency.Convert(ctx, &shop.ConvertRequest{From: quote, To: in.GetCurrency()})
	if err != nil {
		return nil, err
	}
	order := &shop.Order{
		Id: uuid.NewString(), Shipping: shipping,
		Total: &shop.Money{Currency: in.GetCurrency(), Hundredths: shipping.GetHundredths()},
	}
	for _, item := range cart.GetItems() {
		product, err := c.Catalogue.GetProduct(ctx, &shop.GetProductRequest{Id: item.GetProductId()})
		if err != nil {
			return nil, err
		}
		cost, err := c.Currency.Convert(ctx, &shop.ConvertRequest{From: product.GetPrice(), To: in.GetCurrency()})
		if err != nil {
			return nil, err
		}
		order.Lines = append(order.Lines, &shop.OrderLine{Item: item, Cost: cost})
		order.Total.Hundredths += cost.GetHundredths() * int64(item.GetQuantity())
	}
	return order, nil
}
