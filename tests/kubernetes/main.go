// Every part of a Kubernetes cluster as one program, so that it is compiled and linked once.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	parts := map[string]func() *cobra.Command{
		"apiserver":   apiserver.NewAPIServerCommand,
		"controllers": controllers.NewControllerManagerCommand,
		"scheduler":   func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kubelet":     func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
		"kubectl":     kubectl.NewDefaultKubectlCommand,
	}
	os.Args = os.Args[1:]
	if os.Args[0] == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	part, known := parts[os.Args[0]]
	if !known {
		fmt.Fprintln(os.Stderr, "there is no such part")
		os.Exit(2)
	}
	os.Exit(cli.Run(part()))
}
