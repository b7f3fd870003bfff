// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	requirements "sigs.k8s.io/karpenter/pkg/scheduling"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"
	"sigs.k8s.io/karpenter/pkg/utils/resources"
)

// problem holds the objects of a problem file, sorted by what is done with them.
type problem struct {
	pools   []*v1.NodePool
	daemons []*appsv1.DaemonSet
	claims  []*v1.NodeClaim
	nodes   []*corev1.Node
	pending []*corev1.Pod
	bound   []*corev1.Pod
	others  []client.Object // only ever looked up: volumes, claims, classes, namespaces, CSI nodes
}

func readProblem(path string) (problem, error) {
	var p problem
	var raw struct{ Objects []json.RawMessage }
	if err := readJSON(path, &raw); err != nil {
		return p, err
	}
	for i, object := range raw.Objects {
		if err := p.add(object); err != nil {
			return p, fmt.Errorf("%s: objects[%d]: %w", path, i, err)
		}
	}
	return p, nil
}

func (p *problem) add(raw json.RawMessage) error {
	var head struct{ Kind string }
	if err := json.Unmarshal(raw, &head); err != nil {
		return err
	}
	switch head.Kind {
	case "NodePool":
		return appendTo(&p.pools, raw)
	case "DaemonSet":
		return appendTo(&p.daemons, raw)
	case "NodeClaim":
		return appendTo(&p.claims, raw)
	case "Node":
		return appendTo(&p.nodes, raw)
	case "Pod":
		return p.addPod(raw)
	case "PersistentVolume":
		return p.addOther(raw, &corev1.PersistentVolume{})
	case "PersistentVolumeClaim":
		return p.addOther(raw, &corev1.PersistentVolumeClaim{})
	case "Namespace":
		return p.addOther(raw, &corev1.Namespace{})
	case "StorageClass":
		return p.addOther(raw, &storagev1.StorageClass{})
	case "CSINode":
		return p.addOther(raw, &storagev1.CSINode{})
	}
	return fmt.Errorf("kind %q is not one that the Go scheduler is given here", head.Kind)
}

// addPod sorts a pod in as the provisioner would, except that a pending pod needs no condition that says so.
func (p *problem) addPod(raw json.RawMessage) error {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(raw, pod); err != nil {
		return err
	}
	if pod.Namespace == "" {
		pod.Namespace = "default"
	}
	if pod.UID == "" {
		pod.UID = types.UID(podName(pod)) // the scheduler tells pods apart by their UIDs
	}
	switch {
	case pod.Spec.NodeName != "":
		p.bound = append(p.bound, pod)
	case podutils.IsActive(pod) && !podutils.IsOwnedByDaemonSet(pod) && !podutils.IsOwnedByNode(pod):
		p.pending = append(p.pending, pod)
	}
	return nil
}

func (p *problem) addOther(raw json.RawMessage, object client.Object) error {
	if err := json.Unmarshal(raw, object); err != nil {
		return err
	}
	if claim, ok := object.(*corev1.PersistentVolumeClaim); ok && claim.Namespace == "" {
		claim.Namespace = "default"
	}
	p.others = append(p.others, object)
	return nil
}

func appendTo[T any](list *[]*T, raw json.RawMessage) error {
	value := new(T)
	if err := json.Unmarshal(raw, value); err != nil {
		return err
	}
	*list = append(*list, value)
	return nil
}

func podName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

type catalogueType struct {
	Name                  string
	Labels                map[string]string
	Capacity, Allocatable corev1.ResourceList
	Offerings             []offering
}

// offering is written [zone, capacity type, price per hour].
type offering struct {
	zone, capacityType string
	price              float64
}

func (o *offering) UnmarshalJSON(raw []byte) error {
	return json.Unmarshal(raw, &[]any{&o.zone, &o.capacityType, &o.price})
}

func readCatalogue(path string) ([]*cloudprovider.InstanceType, error) {
	// As the AWS provider: volumes of the EBS driver name their zone by this label.
	v1.NormalizedLabels["topology.ebs.csi.aws.com/zone"] = corev1.LabelTopologyZone
	var raw struct{ InstanceTypes []catalogueType }
	if err := readJSON(path, &raw); err != nil {
		return nil, err
	}
	out := make([]*cloudprovider.InstanceType, 0, len(raw.InstanceTypes))
	for _, each := range raw.InstanceTypes {
		out = append(out, each.convert())
	}
	return out, nil
}

func (t catalogueType) convert() *cloudprovider.InstanceType {
	reqs := requirements.NewRequirements(in(corev1.LabelInstanceTypeStable, t.Name))
	for key, value := range t.Labels {
		v1.WellKnownLabels.Insert(key)
		reqs.Add(in(key, value))
	}
	var zones, capacityTypes []string
	var offerings cloudprovider.Offerings
	for _, o := range t.Offerings {
		zones, capacityTypes = append(zones, o.zone), append(capacityTypes, o.capacityType)
		offerings = append(offerings, &cloudprovider.Offering{
			Price:     o.price,
			Available: true,
			Requirements: requirements.NewRequirements(
				in(corev1.LabelTopologyZone, o.zone), in(v1.CapacityTypeLabelKey, o.capacityType)),
		})
	}
	reqs.Add(in(corev1.LabelTopologyZone, zones...), in(v1.CapacityTypeLabelKey, capacityTypes...))
	return &cloudprovider.InstanceType{
		Name:         t.Name,
		Requirements: reqs,
		Offerings:    offerings,
		Capacity:     t.Capacity,
		Overhead: &cloudprovider.InstanceTypeOverhead{
			KubeReserved: resources.Subtract(t.Capacity, t.Allocatable),
		},
	}
}

func in(key string, values ...string) *requirements.Requirement {
	return requirements.NewRequirement(key, corev1.NodeSelectorOpIn, values...)
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
