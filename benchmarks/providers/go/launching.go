// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	sdk "github.com/aws/karpenter-provider-aws/pkg/aws"
	"github.com/aws/karpenter-provider-aws/pkg/utils"
)

// launched is what one NodeClaim made the original ask for.
type launched struct {
	Error        string `json:"error,omitempty"`
	InstanceType string `json:"instanceType,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`
	Fleets       []any  `json:"fleets"`
}

// recorder is EC2, with the requests remembered that launch something.
type recorder struct {
	sdk.EC2API
	templates map[string]any
	fleets    []any
}

func (r *recorder) CreateFleet(
	ctx context.Context, input *ec2.CreateFleetInput, opts ...func(*ec2.Options),
) (*ec2.CreateFleetOutput, error) {
	r.fleets = append(r.fleets, plain(input))
	return r.EC2API.CreateFleet(ctx, input, opts...)
}

func (r *recorder) CreateLaunchTemplate(
	ctx context.Context, input *ec2.CreateLaunchTemplateInput, opts ...func(*ec2.Options),
) (*ec2.CreateLaunchTemplateOutput, error) {
	r.templates[*input.LaunchTemplateName] = plain(input)
	return r.EC2API.CreateLaunchTemplate(ctx, input, opts...)
}

func (a *account) launch(ctx context.Context, each launch) launched {
	a.ec2.fleets = nil
	made := launched{Fleets: []any{}}
	err := func() error {
		tags, err := utils.GetTags(each.NodeClass, each.NodeClaim, a.cluster)
		if err != nil {
			return err
		}
		if err := a.look(ctx, each.NodeClass); err != nil {
			return err
		}
		listed, err := a.types.List(ctx, each.NodeClass)
		if err != nil {
			return err
		}
		found, err := a.instances.Create(ctx, each.NodeClass, each.NodeClaim, tags, listed)
		if err != nil {
			return err
		}
		made.InstanceType, made.CapacityType = string(found.Type), found.CapacityType
		return nil
	}()
	if err != nil {
		made.Error = err.Error()
	}
	if a.ec2.fleets != nil {
		made.Fleets = a.ec2.fleets
	}
	return made
}

// plain gives a request of the SDK as JSON has it.
func plain(value any) any {
	var read any
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return read
}
