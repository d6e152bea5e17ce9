module towtank.example/functions/go

go 1.21

require (
	github.com/cloudevents/sdk-go/v2 v2.15.2
	github.com/google/uuid v1.6.0
	golang.org/x/sys v0.18.0
	knative.dev/func-go v0.21.3
)

require (
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/mattn/go-colorable v0.1.13 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.2 // indirect
	github.com/rs/zerolog v1.32.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.27.0 // indirect
)
