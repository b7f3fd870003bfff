// SPDX-License-Identifier: Apache-2.0

package main

import (
	"sort"

	corev1 "k8s.io/api/core/v1"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
)

// A node may have hundreds of alternatives; the cheapest are enough to compare.
const shownAlternatives = 20

// report is the plan, with the keys that `karpenter solve -o json` uses. Pods are named namespace/name.
type report struct {
	NewNodes      []newNode           `json:"newNodes"`
	Existing      map[string][]string `json:"existing"`
	Unschedulable []unschedulable     `json:"unschedulable"`
	PricePerHour  float64             `json:"pricePerHour"`
	SolveSeconds  float64             `json:"solveSeconds"`
	Rounds        int                 `json:"rounds"`
	MaxRssMiB     int64               `json:"maxRssMiB"`
}

// newNode names the cheapest type and offering; zones and capacityTypes are all that this type could be
// launched with, alternatives the next cheapest types, labels those that the claim settles by itself.
type newNode struct {
	NodePool string `json:"nodePool"`
	purchase
	Labels        map[string]string `json:"labels"`
	Pods          []string          `json:"pods"`
	Zones         []string          `json:"zones"`
	CapacityTypes []string          `json:"capacityTypes"`
	Alternatives  []purchase        `json:"alternatives"`
}

type purchase struct {
	InstanceType string  `json:"instanceType"`
	CapacityType string  `json:"capacityType"`
	Zone         string  `json:"zone"`
	PricePerHour float64 `json:"pricePerHour"`
}

type unschedulable struct {
	Pod     string `json:"pod"`
	Message string `json:"message"`
}

func newReport(results scheduling.Results, refused map[*corev1.Pod]error) report {
	out := report{NewNodes: []newNode{}, Existing: map[string][]string{}, Unschedulable: []unschedulable{}}
	for _, claim := range results.NewNodeClaims {
		node := describe(claim)
		out.PricePerHour += node.PricePerHour
		out.NewNodes = append(out.NewNodes, node)
	}
	for _, node := range results.ExistingNodes {
		if len(node.Pods) > 0 {
			out.Existing[node.Name()] = podNames(node.Pods)
		}
	}
	for _, errs := range []map[*corev1.Pod]error{results.PodErrors, refused} {
		for pod, err := range errs {
			out.Unschedulable = append(out.Unschedulable, unschedulable{Pod: podName(pod), Message: err.Error()})
		}
	}
	sort.Slice(out.Unschedulable, func(i, j int) bool {
		return out.Unschedulable[i].Pod < out.Unschedulable[j].Pod
	})
	return out
}

// describe relies on the instance types being in the order of their price, as TruncateInstanceTypes leaves them.
func describe(claim *scheduling.NodeClaim) newNode {
	cheapest := claim.InstanceTypeOptions[0]
	possible := launchable(cheapest, claim)
	node := newNode{
		NodePool:      claim.NodePoolName,
		purchase:      cheapestOf(cheapest, possible),
		Labels:        claim.ToNodeClaim().Labels,
		Pods:          podNames(claim.Pods),
		Zones:         values(possible, corev1.LabelTopologyZone),
		CapacityTypes: values(possible, v1.CapacityTypeLabelKey),
		Alternatives:  []purchase{},
	}
	for _, other := range claim.InstanceTypeOptions[1:min(len(claim.InstanceTypeOptions), shownAlternatives+1)] {
		if possible := launchable(other, claim); len(possible) > 0 { // a claim on a reservation leaves most types none
			node.Alternatives = append(node.Alternatives, cheapestOf(other, possible))
		}
	}
	return node
}

func launchable(instanceType *cloudprovider.InstanceType, claim *scheduling.NodeClaim) cloudprovider.Offerings {
	return instanceType.Offerings.Available().Compatible(claim.Requirements)
}

func cheapestOf(instanceType *cloudprovider.InstanceType, offerings cloudprovider.Offerings) purchase {
	chosen := offerings.Cheapest()
	return purchase{
		InstanceType: instanceType.Name,
		CapacityType: value(chosen, v1.CapacityTypeLabelKey),
		Zone:         value(chosen, corev1.LabelTopologyZone),
		PricePerHour: chosen.Price,
	}
}

func value(offering *cloudprovider.Offering, key string) string {
	return offering.Requirements.Get(key).Any()
}

func values(offerings cloudprovider.Offerings, key string) []string {
	seen := map[string]bool{}
	for _, each := range offerings {
		seen[value(each, key)] = true
	}
	out := make([]string, 0, len(seen))
	for each := range seen {
		out = append(out, each)
	}
	sort.Strings(out)
	return out
}

func podNames(pods []*corev1.Pod) []string {
	out := make([]string, 0, len(pods))
	for _, pod := range pods {
		out = append(out, podName(pod))
	}
	return out
}
