// SPDX-License-Identifier: Apache-2.0

// peer solves scheduling problems with the public Go Karpenter scheduler and prints each plan as a line of JSON.
//
//	peer [-rounds N] [-enough 30s] [-preference-policy Ignore] [-min-values-policy BestEffort]
//	     CATALOGUE PROBLEM [CATALOGUE PROBLEM ...]
//
// With several problems, one that fails gives a line {"error": ...} and the next goes on; of a single one the
// error is told and the exit code is 1.
//
// It times what the provisioner does between knowing the cluster and having a plan: volume topology, building
// the topology and the scheduler, solving, cutting the lists of instance types. Reading files and filling the
// cluster state are not timed. Unlike the provisioner it does not stop solving after one minute.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	requirements "sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/test"
)

func main() {
	log.SetLogger(logr.Discard())
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	rounds := flag.Int("rounds", 1, "how often to solve; the best time counts")
	enough := flag.Duration("enough", 30*time.Second, "begin no other round when solving took this long in all")
	preferences := flag.String("preference-policy", string(options.PreferencePolicyRespect), "Respect or Ignore")
	minValues := flag.String("min-values-policy", string(options.MinValuesPolicyStrict), "Strict or BestEffort")
	flag.Parse()
	if flag.NArg() == 0 || flag.NArg()%2 != 0 || *rounds < 1 {
		return fmt.Errorf("usage: peer [-rounds N] [-enough 30s] CATALOGUE PROBLEM [CATALOGUE PROBLEM ...]")
	}
	ctx := injection.WithControllerName(context.Background(), "provisioner")
	ctx = options.ToContext(ctx, test.Options(test.OptionsFields{
		PreferencePolicy: ptr(options.PreferencePolicy(*preferences)),
		MinValuesPolicy:  ptr(options.MinValuesPolicy(*minValues)),
	}))
	printer := json.NewEncoder(os.Stdout)
	if flag.NArg() == 2 {
		out, err := answer(ctx, flag.Arg(0), flag.Arg(1), *rounds, *enough)
		if err != nil {
			return err
		}
		return printer.Encode(out)
	}
	for i := 0; i < flag.NArg(); i += 2 {
		var line any
		out, err := answer(ctx, flag.Arg(i), flag.Arg(i+1), *rounds, *enough)
		if line = out; err != nil {
			line = map[string]string{"error": err.Error()}
		}
		if err := printer.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// answer solves one problem. A panic of the scheduler is an error of this problem alone.
func answer(ctx context.Context, catalogue, problem string, rounds int, enough time.Duration) (out report, err error) {
	defer func() {
		if trouble := recover(); trouble != nil {
			err = fmt.Errorf("the scheduler panicked: %v", trouble)
		}
	}()
	instanceTypes, err := readCatalogue(catalogue)
	if err != nil {
		return out, err
	}
	p, err := readProblem(problem)
	if err != nil {
		return out, err
	}
	c, err := newCluster(ctx, p, instanceTypes)
	if err != nil {
		return out, err
	}
	best, total, made := time.Duration(0), time.Duration(0), 0
	var solved outcome
	for made < rounds && (made == 0 || total < enough) {
		if solved, err = c.solve(ctx); err != nil {
			return out, err
		}
		if made == 0 || solved.took < best {
			best = solved.took
		}
		total += solved.took
		made++
	}
	memory := peakMiB() // before the report, which is ours and not the scheduler's
	out = newReport(solved.results, c.refused)
	out.SolveSeconds, out.Rounds, out.MaxRssMiB = best.Seconds(), made, memory
	return out, nil
}

type outcome struct {
	results scheduling.Results
	took    time.Duration
}

// solve makes one plan. The scheduler writes into the pods and nodes that it is given (it appends to label
// selectors and drops affinity terms), so each round gets copies.
func (c *cluster) solve(ctx context.Context) (outcome, error) {
	pods, daemons := copies(c.pods), copies(c.daemons)
	nodes := c.state.DeepCopyNodes().Active()
	clk, recorder := clock.RealClock{}, events.NewRecorder(&record.FakeRecorder{})
	settings := []scheduling.Options{
		scheduling.DisableReservedCapacityFallback,
		scheduling.NumConcurrentReconciles(5), // of its own tests; a controller with one core would use 1
		scheduling.MinValuesPolicy(options.FromContext(ctx).MinValuesPolicy),
	}
	if options.FromContext(ctx).PreferencePolicy == options.PreferencePolicyIgnore {
		settings = append(settings, scheduling.IgnorePreferences)
	}
	byPool := map[string][]*cloudprovider.InstanceType{}
	for _, pool := range c.pools {
		byPool[pool.Name] = c.instanceTypes
	}

	start := time.Now()
	volumes := map[types.UID][]requirements.Requirements{}
	volumeTopology := scheduling.NewVolumeTopology(c.client)
	for _, pod := range pods {
		alternatives, err := volumeTopology.GetRequirements(ctx, pod)
		if err != nil {
			return outcome{}, fmt.Errorf("volumes of pod %s: %w", podName(pod), err)
		}
		if len(alternatives) > 0 {
			volumes[pod.UID] = alternatives
		}
	}
	topology, err := scheduling.NewTopology(ctx, c.client, c.state, nodes, c.pools, byPool, pods, settings...)
	if err != nil {
		return outcome{}, fmt.Errorf("building the topology: %w", err)
	}
	solver := scheduling.NewScheduler(ctx, c.client, c.pools, c.state, nodes, topology, byPool, daemons, recorder,
		clk, volumes, nil, settings...)
	results, err := solver.Solve(ctx, pods)
	if err != nil {
		return outcome{}, fmt.Errorf("solving: %w", err)
	}
	results = results.TruncateInstanceTypes(ctx, scheduling.MaxInstanceTypes)
	return outcome{results: results, took: time.Since(start)}, nil
}

func copies(pods []*corev1.Pod) []*corev1.Pod {
	out := make([]*corev1.Pod, len(pods))
	for i, pod := range pods {
		out[i] = pod.DeepCopy()
	}
	return out
}

func ptr[T any](value T) *T { return &value }

func peakMiB() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return usage.Maxrss >> 20 // bytes there, KiB elsewhere
	}
	return usage.Maxrss >> 10
}
