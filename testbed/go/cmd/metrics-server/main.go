// Command metrics-server is the published metrics-server with its own command line exchanged.
//
// Its command imports a description of its types that is generated for newer libraries than this module's; all else
// builds with ours. So this one puts the same parts together, with the description that Kubernetes itself carries.
package main

import (
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	utilcompatibility "k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/compatibility"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	"sigs.k8s.io/metrics-server/pkg/api"
	"sigs.k8s.io/metrics-server/pkg/scraper/client"
	"sigs.k8s.io/metrics-server/pkg/server"
)

const (
	title          = "Kubernetes metrics-server"
	kubeletPort    = 10250
	scrapeShare    = 9 // tenths of the resolution that one scrape may take, as upstream requires
	leastToMeasure = 10 * time.Second
)

type options struct {
	run            *genericoptions.ServerRunOptions
	serving        *genericoptions.SecureServingOptionsWithLoopback
	authentication *genericoptions.DelegatingAuthenticationOptions
	authorization  *genericoptions.DelegatingAuthorizationOptions
	kubeletCA      string
	resolution     time.Duration
}

func main() {
	o := options{
		run:            genericoptions.NewServerRunOptionsForComponent("metrics server", compatibility.NewComponentGlobalsRegistry()),
		serving:        genericoptions.NewSecureServingOptions().WithLoopback(),
		authentication: genericoptions.NewDelegatingAuthenticationOptions(),
		authorization:  genericoptions.NewDelegatingAuthorizationOptions(),
	}
	command := &cobra.Command{
		Use:  "metrics-server",
		RunE: func(*cobra.Command, []string) error { return o.serve() },
	}
	flags := command.Flags()
	flags.StringVar(&o.kubeletCA, "kubelet-certificate-authority", "", "file with the authority that signed the kubelets' certificates")
	flags.DurationVar(&o.resolution, "metric-resolution", time.Minute, "how often the kubelets are asked, at least 10s")
	o.serving.AddFlags(flags)
	os.Exit(cli.Run(command))
}

func (o *options) serve() error {
	if o.resolution < leastToMeasure {
		return fmt.Errorf("--metric-resolution is %s; allowed: %s and more", o.resolution, leastToMeasure)
	}
	apiserver, err := o.apiserver()
	if err != nil {
		return err
	}
	access, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("metrics-server runs inside a cluster: %w", err)
	}
	access.ContentType = "application/vnd.kubernetes.protobuf"
	if err := rest.SetKubernetesDefaults(access); err != nil {
		return err
	}
	kubelet := rest.CopyConfig(access)
	if o.kubeletCA != "" {
		kubelet.TLSClientConfig.CAFile, kubelet.TLSClientConfig.CAData = o.kubeletCA, nil
	}
	prepared, err := server.Config{
		Apiserver: apiserver,
		Rest:      access,
		Kubelet: &client.KubeletClientConfig{
			Scheme:              "https",
			DefaultPort:         kubeletPort,
			AddressTypePriority: []corev1.NodeAddressType{corev1.NodeInternalIP},
			Client:              *kubelet,
		},
		MetricResolution: o.resolution,
		ScrapeTimeout:    o.resolution * scrapeShare / 10,
	}.Complete()
	if err != nil {
		return err
	}
	return prepared.RunUntil(genericapiserver.SetupSignalHandler())
}

func (o *options) apiserver() (*genericapiserver.Config, error) {
	loopback := net.ParseIP("127.0.0.1")
	if err := o.serving.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{loopback}); err != nil {
		return nil, fmt.Errorf("self-signed certificates: %w", err)
	}
	if err := o.run.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, err
	}
	config := genericapiserver.NewConfig(api.Codecs)
	if err := o.run.ApplyTo(config); err != nil {
		return nil, err
	}
	if err := o.serving.ApplyTo(&config.SecureServing, &config.LoopbackClientConfig); err != nil {
		return nil, err
	}
	if err := o.authentication.ApplyTo(&config.Authentication, config.SecureServing, nil); err != nil {
		return nil, err
	}
	if err := o.authorization.ApplyTo(&config.Authorization); err != nil {
		return nil, err
	}
	namer := openapinamer.NewDefinitionNamer(api.Scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(generatedopenapi.GetOpenAPIDefinitions, namer)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(generatedopenapi.GetOpenAPIDefinitions, namer)
	config.OpenAPIConfig.Info.Title, config.OpenAPIV3Config.Info.Title = title, title
	config.EffectiveVersion = utilcompatibility.DefaultBuildEffectiveVersion()
	return config, nil
}
