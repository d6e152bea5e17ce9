package serve

import (
	"context"
	"fmt"
	"os"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Trace exports spans by OTLP over HTTP (protobuf) when OTEL_EXPORTER_OTLP_ENDPOINT names where to; otherwise none are made.
// OpenTelemetry's other variables hold as well, such as OTEL_TRACES_SAMPLER and OTEL_SERVICE_NAME. The function that is returned
// exports what is left.
func Trace(ctx context.Context, service string) (func(context.Context) error, error) {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return func(context.Context) error { return nil }, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("spans cannot be exported: %w", err)
	}
	own := resource.NewSchemaless(attribute.String("service.name", service), attribute.String("service.instance.id", instance(service)))
	described, err := resource.Merge(own, resource.Environment()) // what the environment names goes first
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES cannot be read: %w", err)
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(described))
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	return provider.Shutdown, nil
}
