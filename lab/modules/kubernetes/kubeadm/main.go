// kubeadm, built from the same module as the components that it installs.
package main

import (
	"fmt"
	"os"

	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/kubernetes/cmd/kubeadm/app"
)

func main() {
	if err := app.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
