package components

import (
	"bytes"
	"context"
	"fmt"
	"net/mail"
	"text/template"

	"connectrpc.com/connect"

	"towtank.example/boutique/internal/shop"
)

var confirmation = template.Must(template.New("confirmation").Parse(
	`Your order {{.GetId}} is on its way ({{.GetTrackingId}}):{{range .GetLines}}
{{.GetItem.GetQuantity}} x {{.GetItem.GetProductId}}{{end}}
`))

// Email writes confirmations, and sends them nowhere.
type Email struct{}

// SendConfirmation refuses what is no address (InvalidArgument).
func (Email) SendConfirmation(_ context.Context, in *shop.ConfirmationRequest) (*shop.Done, error) {
	if _, err := mail.ParseAddress(in.GetEmail()); err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%q is no e-mail address", in.GetEmail()))
	}
	var text bytes.Buffer
	if err := confirmation.Execute(&text, in.GetOrder()); err != nil {
		return nil, connect.NewError(connect.CodeInternal, err)
	}
	return &shop.Done{}, nil
}
