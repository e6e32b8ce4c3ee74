// Kubernetes' own upgrade tests, with a disturbance from outside.
//
// Upstream's runner of them upgraded clusters of one cloud, and is gone since v1.37; the tests, and the chaosmonkey that
// sets them up before a disturbance and has them verified after it, are still there. Each test is a spec of its own
// here, so that each has a result: run as many parallel processes as there are tests. In the folder UPGRADE_SIGNALS, a
// spec writes `NAME.ready` once its test is set up, and waits for `done`.
package upgrades

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"

	"k8s.io/apimachinery/pkg/util/version"
	_ "k8s.io/component-base/logs/testinit"
	"k8s.io/kubernetes/test/e2e"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/metrics/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	e2etestingmanifests "k8s.io/kubernetes/test/e2e/testing-manifests"
	"k8s.io/kubernetes/test/e2e/upgrades"
	"k8s.io/kubernetes/test/e2e/upgrades/apps"
	"k8s.io/kubernetes/test/e2e/upgrades/auth"
	"k8s.io/kubernetes/test/e2e/upgrades/autoscaling"
	"k8s.io/kubernetes/test/e2e/upgrades/network"
	"k8s.io/kubernetes/test/e2e/upgrades/node"
	"k8s.io/kubernetes/test/e2e/upgrades/storage"
	"k8s.io/kubernetes/test/utils/junit"
)

// disturbance is how long the disturbance may take, from the set-up of the first test on.
const disturbance = 45 * time.Minute

var (
	notInAName = regexp.MustCompile(`[^[:word:]-]+`)

	tests = []upgrades.Test{
		&apps.CassandraUpgradeTest{},
		&apps.DaemonSetUpgradeTest{},
		&apps.DeploymentUpgradeTest{},
		&apps.EtcdUpgradeTest{},
		&apps.JobUpgradeTest{},
		&apps.MySQLUpgradeTest{},
		&apps.ReplicaSetUpgradeTest{},
		&apps.StatefulSetUpgradeTest{},
		&auth.ServiceAccountAdmissionControllerMigrationTest{},
		&autoscaling.HPAUpgradeTest{},
		&network.ServiceUpgradeTest{},
		&node.AppArmorUpgradeTest{},
		&node.ConfigMapUpgradeTest{},
		&node.SecretUpgradeTest{},
		&storage.PersistentVolumeUpgradeTest{},
		&storage.VolumeModeDowngradeTest{},
	}
)

var _ = ginkgo.Describe("Upgrade tests", func() {
	for _, test := range tests {
		ginkgo.Context(test.Name(), func() {
			frameworks := upgrades.CreateUpgradeFrameworks([]upgrades.Test{test})
			ginkgo.It("holds before, during and after the disturbance", func(ctx context.Context) {
				upgrade := between(os.Getenv("UPGRADE_FROM"), os.Getenv("UPGRADE_TO"))
				// Upstream's runner says of a skipped test that it passed.
				if skippable, ok := test.(upgrades.Skippable); ok && skippable.Skip(*upgrade) {
					signal(test.Name())
					ginkgo.Skip("upstream skips it for these versions, this provider or this distribution")
				}
				suite := &junit.TestSuite{Name: test.Name()}
				disturb := func(ctx context.Context) { signalAndWait(ctx, test.Name()) }
				one := []upgrades.Test{test}
				upgrades.RunUpgradeSuite(ctx, upgrade, one, frameworks, suite, upgrades.MasterUpgrade, disturb)
			})
		})
	}
})

func between(from, to string) *upgrades.UpgradeContext {
	found := &upgrades.UpgradeContext{}
	for _, text := range []string{from, to} {
		parsed, err := version.ParseSemantic(text)
		framework.ExpectNoError(err, "UPGRADE_FROM and UPGRADE_TO must be versions")
		image := framework.TestContext.NodeOSDistro
		found.Versions = append(found.Versions, upgrades.VersionContext{Version: *parsed, NodeImage: image})
	}
	return found
}

func signal(name string) string {
	folder := os.Getenv("UPGRADE_SIGNALS")
	ready := filepath.Join(folder, notInAName.ReplaceAllString(name, "-")+".ready")
	framework.ExpectNoError(os.WriteFile(ready, nil, 0o644))
	return folder
}

func signalAndWait(ctx context.Context, name string) {
	folder := signal(name)
	deadline := time.After(disturbance)
	for {
		if _, err := os.Stat(filepath.Join(folder, "done")); err == nil {
			return
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			framework.Failf("interrupted while it waited for the end of the disturbance: %v", ctx.Err())
		case <-deadline:
			framework.Failf("the disturbance did not end within %v: there is no file `done` in %s", disturbance, folder)
		}
	}
}

func TestMain(m *testing.M) {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	testfiles.AddFileSource(e2etestingmanifests.GetE2ETestingManifestsFS())
	framework.AfterReadingAllFlags(&framework.TestContext)
	os.Exit(m.Run())
}

func TestUpgrades(t *testing.T) {
	e2e.RunE2ETests(t)
}
