package mesh

import (
	"context"
	"net/http"
	"os"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

var wire = propagation.TraceContext{}

// StartTracing sends spans by OTLP/HTTP as OpenTelemetry's environment variables say. Without OTEL_EXPORTER_OTLP_ENDPOINT (or the one
// for traces) there are none: the tracer is nil. `stop` sends what is left.
func StartTracing(ctx context.Context, process string) (tracer trace.Tracer, stop func(context.Context) error, err error) {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return nil, func(context.Context) error { return nil }, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, err
	}
	about := resource.NewSchemaless(attribute.String("service.name", process))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	return provider.Tracer("boutique"), provider.Shutdown, nil
}

func (n *Node) span(ctx context.Context, name string, kind trace.SpanKind) (context.Context, trace.Span) {
	if n.config.Tracer == nil {
		return ctx, noop.Span{}
	}
	return n.config.Tracer.Start(ctx, name, trace.WithSpanKind(kind))
}

// arrived is the span of what came in by HTTP; its end is up to the caller.
func (n *Node) arrived(request *http.Request, name string) (context.Context, trace.Span) {
	if n.config.Tracer == nil {
		return request.Context(), noop.Span{}
	}
	ctx := wire.Extract(request.Context(), propagation.HeaderCarrier(request.Header))
	return n.span(ctx, name, trace.SpanKindServer)
}

func finish(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// tracing hands the trace on with remote calls, and makes a span of each that arrives.
func (n *Node) tracing() connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		if n.config.Tracer == nil {
			return next
		}
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			carrier := propagation.HeaderCarrier(request.Header())
			if request.Spec().IsClient {
				wire.Inject(ctx, carrier)
				return next(ctx, request)
			}
			ctx, span := n.span(wire.Extract(ctx, carrier), request.Spec().Procedure[1:], trace.SpanKindServer)
			response, err := next(ctx, request)
			finish(span, err)
			return response, err
		}
	}
}
