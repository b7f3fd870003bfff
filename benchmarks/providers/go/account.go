// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	awscache "github.com/aws/karpenter-provider-aws/pkg/cache"
	"github.com/aws/karpenter-provider-aws/pkg/operator/options"
	"github.com/aws/karpenter-provider-aws/pkg/providers/amifamily"
	"github.com/aws/karpenter-provider-aws/pkg/providers/arczonalshift"
	"github.com/aws/karpenter-provider-aws/pkg/providers/capacityreservation"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instance"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instancetype"
	"github.com/aws/karpenter-provider-aws/pkg/providers/launchtemplate"
	"github.com/aws/karpenter-provider-aws/pkg/providers/placementgroup"
	"github.com/aws/karpenter-provider-aws/pkg/providers/pricing"
	"github.com/aws/karpenter-provider-aws/pkg/providers/securitygroup"
	"github.com/aws/karpenter-provider-aws/pkg/providers/subnet"
	"github.com/patrickmn/go-cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/karpenter/pkg/events"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
)

const kept = time.Hour

// account is the original's providers, put together as its operator does, on one AWS account.
type account struct {
	cluster      string
	ec2          *recorder
	types        *instancetype.DefaultProvider
	instances    *instance.DefaultProvider
	reservations capacityreservation.Provider
	groups       placementgroup.Provider
}

func newAccount(ctx context.Context, asked question) (context.Context, *account, error) {
	ctx = coreoptions.ToContext(ctx, &coreoptions.Options{
		FeatureGates: coreoptions.FeatureGates{ReservedCapacity: true},
	})
	ctx = options.ToContext(ctx, &options.Options{
		ClusterName:             asked.Cluster.Name,
		ClusterEndpoint:         asked.Cluster.Endpoint,
		VMMemoryOverheadPercent: 0.075,
		AMIRefreshInterval:      time.Minute,
		SubnetRefreshInterval:   time.Minute,
	})
	v1.CapacityReservationsEnabled = true
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(asked.Region))
	if err != nil {
		return ctx, nil, fmt.Errorf("loading the configuration of AWS, %w", err)
	}
	api := &recorder{EC2API: ec2.NewFromConfig(cfg), templates: map[string]any{}}
	fresh := func() *cache.Cache { return cache.New(kept, kept) }
	subnets := subnet.NewDefaultProvider(api, fresh(), fresh())
	groups := securitygroup.NewDefaultProvider(api, fresh())
	prices := pricing.NewDefaultProvider(pricing.NewAPI(cfg), api, asked.Region, false)
	placement := placementgroup.NewProvider(api, fresh(), fresh())
	reservations := capacityreservation.NewProvider(api, clock.RealClock{}, fresh(), fresh())
	shifts := arczonalshift.NewNoopProvider()
	soldOut := awscache.NewUnavailableOfferings()
	templates := launchtemplate.NewDefaultProvider(
		ctx, fresh(), api, eks.NewFromConfig(cfg), amifamily.NewDefaultResolver(asked.Region), groups, subnets,
		placement, &asked.Cluster.CABundle, make(chan struct{}), net.ParseIP(asked.Cluster.DNSIP),
		asked.Cluster.Endpoint,
	)
	// Its cache of offerings does not tell node classes apart in all that matters, and would answer for another one.
	offerings := cache.New(time.Nanosecond, kept)
	types := instancetype.NewDefaultProvider(
		fresh(), offerings, fresh(), api, subnets, prices, reservations, placement, soldOut,
		instancetype.NewDefaultResolver(asked.Region), shifts, nil,
	)
	instances := instance.NewDefaultProvider(
		ctx, asked.Region, events.NewRecorder(&record.FakeRecorder{}), api, soldOut, subnets, templates, reservations,
		placement, shifts, cache.New(cache.NoExpiration, cache.NoExpiration),
	)
	for what, step := range map[string]func(context.Context) error{
		"instance types":       types.UpdateInstanceTypes,
		"offerings":            types.UpdateInstanceTypeOfferings,
		"on-demand prices":     prices.UpdateOnDemandPricing,
		"spot prices":          prices.UpdateSpotPricing,
		"the cluster's ranges": templates.ResolveClusterCIDR,
	} {
		if err := step(ctx); err != nil {
			return ctx, nil, fmt.Errorf("reading %s, %w", what, err)
		}
	}
	return ctx, &account{asked.Cluster.Name, api, types, instances, reservations, placement}, nil
}
