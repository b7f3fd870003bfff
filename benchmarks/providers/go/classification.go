// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awserrors "github.com/aws/karpenter-provider-aws/pkg/errors"
	"github.com/aws/smithy-go"
)

// classification is what the original makes of an error of CreateFleet, and of the same code for a whole call.
type classification struct {
	Reason                string `json:"reason"`
	Unfulfillable         bool   `json:"unfulfillable"`
	ReservationExceeded   bool   `json:"reservationExceeded"`
	ServiceLinkedRole     bool   `json:"serviceLinkedRole"`
	InsufficientAddresses bool   `json:"insufficientAddresses"`
	SpreadLimit           bool   `json:"spreadLimit"`
	NotFound              bool   `json:"notFound"`
	AlreadyExists         bool   `json:"alreadyExists"`
	RateLimited           bool   `json:"rateLimited"`
	TemplateNotFound      bool   `json:"templateNotFound"`
	Unauthorized          bool   `json:"unauthorized"`
}

func classify(each fleetError) classification {
	fleet := ec2types.CreateFleetError{ErrorCode: &each.Code, ErrorMessage: &each.Message}
	call := &smithy.GenericAPIError{Code: each.Code, Message: each.Message}
	reason, _ := awserrors.ToReasonMessage(fmt.Errorf("%s: %s", each.Code, each.Message))
	return classification{
		Reason:                reason,
		Unfulfillable:         awserrors.IsUnfulfillableCapacity(fleet),
		ReservationExceeded:   awserrors.IsReservationCapacityExceeded(fleet),
		ServiceLinkedRole:     awserrors.IsServiceLinkedRoleCreationNotPermitted(fleet),
		InsufficientAddresses: awserrors.IsInsufficientFreeAddressesInSubnet(fleet),
		SpreadLimit:           awserrors.IsSpreadPlacementGroupLimitError(fleet),
		NotFound:              awserrors.IsNotFound(call),
		AlreadyExists:         awserrors.IsAlreadyExists(call),
		RateLimited:           awserrors.IsRateLimitedError(call),
		TemplateNotFound:      awserrors.IsLaunchTemplateNotFound(call),
		Unauthorized:          awserrors.IsUnauthorizedOperationError(call),
	}
}
