// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/fake"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/utils/daemonset"
	nodepoolutils "sigs.k8s.io/karpenter/pkg/utils/nodepool"
)

// cluster is everything that a round of solving reads.
type cluster struct {
	client        client.Client
	state         *state.Cluster
	pools         []*v1.NodePool
	instanceTypes []*cloudprovider.InstanceType
	pods          []*corev1.Pod // to place: pending, or on nodes that are being deleted
	daemons       []*corev1.Pod
	refused       map[*corev1.Pod]error // pods that the provisioner does not even try
}

// newCluster fills the cluster state as the controllers would from their watches: claims, nodes, bound pods,
// DaemonSets. A NodeClaim without a provider ID has not been launched; Karpenter itself would wait for it.
func newCluster(ctx context.Context, p problem, instanceTypes []*cloudprovider.InstanceType) (*cluster, error) {
	kube, err := newClient(p)
	if err != nil {
		return nil, err
	}
	provider := fake.NewCloudProvider()
	provider.InstanceTypes = instanceTypes
	clk, recorder := clock.RealClock{}, events.NewRecorder(&record.FakeRecorder{})
	known := state.NewCluster(clk, kube, provider)
	for _, claim := range p.claims {
		known.UpdateNodeClaim(claim.DeepCopy())
	}
	for _, node := range p.nodes {
		if err := known.UpdateNode(ctx, node.DeepCopy()); err != nil {
			return nil, fmt.Errorf("node %s: %w", node.Name, err)
		}
	}
	for _, pod := range p.bound {
		if err := known.UpdatePod(ctx, pod.DeepCopy()); err != nil {
			return nil, fmt.Errorf("pod %s on node %s: %w", podName(pod), pod.Spec.NodeName, err)
		}
	}
	for _, set := range p.daemons {
		if err := known.UpdateDaemonSet(ctx, set); err != nil {
			return nil, fmt.Errorf("daemonset %s/%s: %w", set.Namespace, set.Name, err)
		}
	}
	nodepoolutils.OrderByWeight(p.pools)
	c := &cluster{client: kube, state: known, pools: p.pools, instanceTypes: instanceTypes,
		daemons: daemonPods(p, known), refused: map[*corev1.Pod]error{}}
	provisioner := provisioning.NewProvisioner(kube, recorder, provider, known, clk, nil, nil)
	for _, pod := range p.pending {
		if err := provisioner.Validate(ctx, pod); err != nil {
			c.refused[pod] = fmt.Errorf("ignoring pod, %w", err)
		} else {
			c.pods = append(c.pods, pod)
		}
	}
	leaving, err := known.DeepCopyNodes().Deleting().CurrentlyReschedulablePods(ctx, kube, clk, recorder)
	if err != nil {
		return nil, fmt.Errorf("pods on nodes that are being deleted: %w", err)
	}
	c.pods = append(c.pods, leaving...)
	return c, nil
}

// newClient serves what the scheduler looks up. Pending pods stay out: they never count, and finding that out
// in a fake client would be charged to the scheduler's time.
func newClient(p problem) (client.Client, error) {
	objects := append([]client.Object{}, p.others...)
	for _, each := range p.nodes {
		objects = append(objects, each)
	}
	for _, each := range p.claims {
		objects = append(objects, each)
	}
	for _, each := range p.bound {
		objects = append(objects, each)
	}
	for _, each := range objects {
		if each.GetDeletionTimestamp() != nil && len(each.GetFinalizers()) == 0 {
			return nil, fmt.Errorf("%T %s has a deletionTimestamp but no finalizers: no API server would show it",
				each, each.GetName())
		}
	}
	byNode := func(object client.Object) []string { return []string{object.(*corev1.Pod).Spec.NodeName} }
	return fakeclient.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", byNode).
		WithInterceptorFuncs(interceptor.Funcs{Get: getAsServed}).Build(), nil
}

// getAsServed drops the namespace from the key of a PersistentVolume, as an API server would: the scheduler
// passes the one of the pod, and the fake client would look there in vain.
func getAsServed(ctx context.Context, kube client.WithWatch, key client.ObjectKey, object client.Object,
	settings ...client.GetOption) error {
	if _, ok := object.(*corev1.PersistentVolume); ok {
		key.Namespace = ""
	}
	return kube.Get(ctx, key, object, settings...)
}

// daemonPods gives the pod that each DaemonSet would add to a node: a running one where there is one, since
// admission may have changed it, and with the node affinity of the template, which the controller overwrites.
func daemonPods(p problem, known *state.Cluster) []*corev1.Pod {
	var out []*corev1.Pod
	for _, set := range p.daemons {
		pod := known.GetDaemonSetPod(set)
		if pod == nil {
			pod = daemonset.PodForDaemonSet(set)
		}
		if wanted := set.Spec.Template.Spec.Affinity; wanted != nil && wanted.NodeAffinity != nil &&
			wanted.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			pod = pod.DeepCopy()
			if pod.Spec.Affinity == nil {
				pod.Spec.Affinity = &corev1.Affinity{}
			}
			if pod.Spec.Affinity.NodeAffinity == nil {
				pod.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
			}
			pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution =
				wanted.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		}
		out = append(out, pod)
	}
	return out
}
