// Command kwok is KWOK's controller with its fast stages: nodes that say that they are fake become Ready, and so do the
// pods on them. Its server, which lets kubectl look into such pods, is left out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodeheartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/client/clientset/versioned"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
	"sigs.k8s.io/kwok/pkg/utils/client"
)

const (
	// fake is the annotation of nodes that are looked after; all others are left alone.
	fake = "kwok.x-k8s.io/node=fake"
	// leaseSeconds: renewed every quarter of it, well within the 50 s after which a node counts as lost.
	leaseSeconds = 100
	parallel     = 4
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the cluster, and who speaks to it")
	cidr := flag.String("cidr", "10.0.0.1/16", "addresses of pods, at which nobody answers")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, *kubeconfig, *cidr); err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, cidr string) error {
	stages, err := fastStages()
	if err != nil {
		return err
	}
	settings := controllers.Config{
		Clock:                             clock.RealClock{},
		ID:                                "kwok",
		ManageNodesWithAnnotationSelector: fake,
		CIDR:                              cidr,
		LocalStages:                       stages,
		NodeLeaseDurationSeconds:          leaseSeconds,
		NodeLeaseParallelism:              parallel,
		NodePlayStageParallelism:          parallel,
		PodPlayStageParallelism:           parallel,
		PodsOnNodeSyncParallelism:         1,
		EnablePodsOnNodeSyncListPager:     true,
	}
	if err := connect(kubeconfig, &settings); err != nil {
		return err
	}
	controller, err := controllers.NewController(settings)
	if err != nil {
		return err
	}
	if err := controller.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// connect makes all the clients that the controller wants.
func connect(kubeconfig string, settings *controllers.Config) error {
	clients, err := client.NewClientset("", kubeconfig)
	if err != nil {
		return err
	}
	address, err := clients.ToRESTConfig()
	if err != nil {
		return err
	}
	var problems [5]error
	settings.DynamicClient, problems[0] = clients.ToDynamicClient()
	settings.RESTMapper, problems[1] = clients.ToRESTMapper()
	settings.RESTClient, problems[2] = rest.RESTClientFor(address)
	settings.TypedClient, problems[3] = kubernetes.NewForConfig(address)
	settings.TypedKwokClient, problems[4] = versioned.NewForConfig(address)
	settings.ImpersonatingDynamicClient = clients.ToImpersonatingDynamicClient()
	settings.ImpersonatingTypedClient = clients.ToImpersonatingTypedClient()
	return errors.Join(problems[:]...)
}

// fastStages are KWOK's own: nodes and pods are ready at once, and gone as soon as they are deleted.
func fastStages() (map[internalversion.StageResourceRef][]*internalversion.Stage, error) {
	found := map[internalversion.StageResourceRef][]*internalversion.Stage{}
	for _, text := range []string{
		nodefast.DefaultNodeInit, nodeheartbeat.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete,
	} {
		stage, err := config.UnmarshalWithType[*internalversion.Stage](text)
		if err != nil {
			return nil, err
		}
		found[stage.Spec.ResourceRef] = append(found[stage.Spec.ResourceRef], stage)
	}
	return found, nil
}
