// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/test"
)

// The cluster has a managed node n1 in zone a that holds a pod with anti-affinity to web, an unmanaged node
// plain in zone c that may attach no volume, a claim in flight in zone b, and a node that is being deleted.
func TestNodesVolumesAndNamespacesReachTheScheduler(t *testing.T) {
	ctx := options.ToContext(context.Background(), test.Options())
	instanceTypes, err := readCatalogue("../catalogue.json")
	if err != nil {
		t.Fatal(err)
	}
	p, err := readProblem("testdata/cluster.json")
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCluster(ctx, p, instanceTypes)
	if err != nil {
		t.Fatal(err)
	}
	var got report
	for range 2 { // a round must not change what the next one sees
		solved, err := c.solve(ctx)
		if err != nil {
			t.Fatal(err)
		}
		got = newReport(solved.results, c.refused)
	}

	wantExisting := map[string][]string{
		"inflight": {"default/v-bound"}, // its volume is in zone b
		"n1":       {"default/lives-on-going", "default/small-1"},
		"plain":    {"default/web-1", "default/near"}, // not beside the anti-affinity; near team-a/cache
	}
	if !reflect.DeepEqual(got.Existing, wantExisting) {
		t.Errorf("existing nodes got %v, want %v", got.Existing, wantExisting)
	}
	if len(got.NewNodes) != 1 || got.NewNodes[0].Zone != "us-east-1c" ||
		!reflect.DeepEqual(got.NewNodes[0].Pods, []string{"default/v-wait"}) {
		t.Errorf("the volume that waits needs a new node in zone c, got %+v", got.NewNodes)
	}
	wantMessages := map[string]string{
		"default/too-big":   "no instance type has enough resources",
		"default/v-missing": "ignoring pod, getting persistent volume claim",
		"default/v-now":     "ignoring pod, failed to validate pvc",
	}
	if len(got.Unschedulable) != len(wantMessages) {
		t.Errorf("unschedulable: got %v", got.Unschedulable)
	}
	for _, each := range got.Unschedulable {
		if want, ok := wantMessages[each.Pod]; !ok || !strings.HasPrefix(each.Message, want) {
			t.Errorf("pod %s: got %q, want %q", each.Pod, each.Message, want)
		}
	}
}

func TestAnUnknownKindIsNamed(t *testing.T) {
	var p problem
	err := p.add([]byte(`{"kind": "Gadget"}`))
	if err == nil || !strings.Contains(err.Error(), `"Gadget"`) {
		t.Errorf("got %v", err)
	}
}
