// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sort"

	v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

type instanceType struct {
	Name         string                 `json:"name"`
	Capacity     map[string]string      `json:"capacity"`
	Allocatable  map[string]string      `json:"allocatable"`
	Requirements map[string]requirement `json:"requirements"`
	Offerings    []offering             `json:"offerings"`
}

type requirement struct {
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

type offering struct {
	Labels    map[string]string `json:"labels"`
	Price     float64           `json:"price"`
	Available bool              `json:"available"`
}

// look reads what the controllers of a node class would have read before: its reservations and its placement group.
func (a *account) look(ctx context.Context, class *v1.EC2NodeClass) error {
	if len(class.Spec.CapacityReservationSelectorTerms) > 0 {
		if _, err := a.reservations.List(ctx, class.Spec.CapacityReservationSelectorTerms...); err != nil {
			return err
		}
	}
	_, err := a.groups.Get(ctx, class)
	return err
}

func (a *account) typesOf(ctx context.Context, class *v1.EC2NodeClass) ([]instanceType, error) {
	if err := a.look(ctx, class); err != nil {
		return nil, err
	}
	listed, err := a.types.List(ctx, class)
	if err != nil {
		return nil, err
	}
	sort.Slice(listed, func(i, j int) bool { return listed[i].Name < listed[j].Name })
	found := make([]instanceType, 0, len(listed))
	for _, each := range listed {
		found = append(found, instanceType{
			Name:         each.Name,
			Capacity:     quantities(each.Capacity),
			Allocatable:  quantities(each.Allocatable()),
			Requirements: requirementsOf(each.Requirements),
			Offerings:    offeringsOf(each.Offerings),
		})
	}
	return found, nil
}

func quantities(list corev1.ResourceList) map[string]string {
	found := map[string]string{}
	for name, quantity := range list {
		found[string(name)] = quantity.String()
	}
	return found
}

func requirementsOf(all scheduling.Requirements) map[string]requirement {
	found := map[string]requirement{}
	for key, each := range all {
		values := each.Values()
		sort.Strings(values)
		found[key] = requirement{string(each.Operator()), values}
	}
	return found
}

func offeringsOf(all cloudprovider.Offerings) []offering {
	found := make([]offering, 0, len(all))
	for _, each := range all {
		labels := map[string]string{}
		for key, one := range each.Requirements {
			if one.Operator() == corev1.NodeSelectorOpIn {
				labels[key] = one.Any()
			}
		}
		found = append(found, offering{labels, each.Price, each.Available})
	}
	return found
}
