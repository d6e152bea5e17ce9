// The function to measure in Go, on the runtime of Knative's function template (func-go). See ../CONTRACT.md.
package main

import (
	"fmt"
	"os"

	runtime "knative.dev/func-go/http"
)

func main() {
	runtime.SetLogLevel(runtime.LogWarn)
	if os.Getenv("LISTEN_ADDRESS") == "" {
		// The runtime's own reading of PORT listens on loopback only, and warns that it is old.
		os.Setenv("LISTEN_ADDRESS", ":"+portOf(os.Getenv))
	}
	if err := runtime.Start(newFunction(os.Getenv)); err != nil {
		fmt.Fprintln(os.Stderr, "function:", err)
		os.Exit(1)
	}
}

func portOf(variable func(string) string) string {
	if port := variable("PORT"); port != "" {
		return port
	}
	return "8080"
}
