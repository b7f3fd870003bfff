// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
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

// offering is written [zone, capacity type, price per hour], or as an object where it draws on a reservation.
type offering struct {
	Zone                string
	CapacityType        string
	PricePerHour        float64
	ReservationID       string
	ReservationCapacity int
}

func (o *offering) UnmarshalJSON(raw []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
		return json.Unmarshal(raw, &[]any{&o.Zone, &o.CapacityType, &o.PricePerHour})
	}
	type plain offering // without this method
	return json.Unmarshal(raw, (*plain)(o))
}

// convert gives an offering as a provider would. Every offering says what it is by reservation, even if nothing.
func (o offering) convert() *cloudprovider.Offering {
	reservation := requirements.NewRequirement(cloudprovider.ReservationIDLabel, corev1.NodeSelectorOpDoesNotExist)
	if o.ReservationID != "" {
		reservation = in(cloudprovider.ReservationIDLabel, o.ReservationID)
	}
	return &cloudprovider.Offering{
		Price:               o.PricePerHour,
		Available:           o.ReservationID == "" || o.ReservationCapacity > 0,
		ReservationCapacity: o.ReservationCapacity,
		Requirements: requirements.NewRequirements(
			in(corev1.LabelTopologyZone, o.Zone), in(v1.CapacityTypeLabelKey, o.CapacityType), reservation),
	}
}

// knownLabels are those that Karpenter knows before any catalogue is read; each catalogue adds its own.
var knownLabels = v1.WellKnownLabels.Clone()

// reservationLabel is the name that the AWS provider gives to the label of a reservation.
const reservationLabel = "karpenter.k8s.aws/capacity-reservation-id"

func readCatalogue(path string) ([]*cloudprovider.InstanceType, error) {
	// As the AWS provider: volumes of the EBS driver name their zone by this label.
	v1.NormalizedLabels["topology.ebs.csi.aws.com/zone"] = corev1.LabelTopologyZone
	cloudprovider.ReservationIDLabel = reservationLabel
	cloudprovider.ReservedCapacityLabels.Insert(reservationLabel)
	v1.WellKnownLabels = knownLabels.Union(sets.New(reservationLabel))
	var raw struct{ InstanceTypes []catalogueType }
	if err := readJSON(path, &raw); err != nil {
		return nil, err
	}
	for _, each := range raw.InstanceTypes {
		for key := range each.Labels {
			v1.WellKnownLabels.Insert(key)
		}
	}
	labels := v1.WellKnownLabels.Difference(knownLabels).Delete(reservationLabel)
	out := make([]*cloudprovider.InstanceType, 0, len(raw.InstanceTypes))
	for _, each := range raw.InstanceTypes {
		out = append(out, each.convert(labels))
	}
	return out, nil
}

// convert gives an instance type as the AWS provider would: a label that others have is said to be absent.
func (t catalogueType) convert(labels sets.Set[string]) *cloudprovider.InstanceType {
	reqs := requirements.NewRequirements(in(corev1.LabelInstanceTypeStable, t.Name))
	for key := range labels {
		if value, ok := t.Labels[key]; ok {
			reqs.Add(in(key, value))
		} else {
			reqs.Add(requirements.NewRequirement(key, corev1.NodeSelectorOpDoesNotExist))
		}
	}
	for key, value := range t.Labels {
		reqs.Add(in(key, value))
	}
	var zones, capacityTypes []string
	var offerings cloudprovider.Offerings
	for _, o := range t.Offerings {
		zones, capacityTypes = append(zones, o.Zone), append(capacityTypes, o.CapacityType)
		offerings = append(offerings, o.convert())
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
