//go:build tools

// What is built from Kubernetes' own module beside our upgrade tests: named here, so that `go mod tidy` keeps it.
package build

import (
	_ "github.com/onsi/ginkgo/v2/ginkgo"
	_ "k8s.io/kubernetes/test/e2e"
	_ "k8s.io/kubernetes/test/images/agnhost"
	_ "k8s.io/sample-apiserver"
)
