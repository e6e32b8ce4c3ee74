// One executable for the five long-running Kubernetes components and kubectl. It looks
// at the name it was started under, as busybox does, so that one binary (and one image
// layer) of 140 MB serves where six would need 600 MB.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"

	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	name := filepath.Base(os.Args[0])
	if strings.HasPrefix(name, "kubectl") {
		os.Exit(cli.Run(kubectl.NewDefaultKubectlCommand()))
	}
	var command *cobra.Command
	switch name {
	case "kube-apiserver":
		command = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		command = controllermanager.NewControllerManagerCommand()
	case "kube-scheduler":
		command = scheduler.NewSchedulerCommand()
	case "kube-proxy":
		command = proxy.NewProxyCommand()
	case "kubelet":
		command = kubeletCommand(kubelet.NewKubeletCommand)
	default:
		fmt.Fprintf(os.Stderr, "%s: start this as kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy, kubelet or kubectl\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}

// kubeletCommand calls kubelet.NewKubeletCommand, which takes a context since v1.34.
func kubeletCommand(of any) *cobra.Command {
	if since, ok := of.(func(context.Context) *cobra.Command); ok {
		return since(context.Background())
	}
	return of.(func() *cobra.Command)()
}
