// SPDX-License-Identifier: Apache-2.0

// Command providers answers questions about the Go Karpenter for AWS with its own packages: which instance types a
// node class has, what a NodeClaim launches, what an error of a fleet means, and the hash of a node class.
//
// It reads one JSON document from standard input and writes one to standard output. AWS is what AWS_ENDPOINT_URL says.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// question is what is asked; every part may be empty.
type question struct {
	Region   string             `json:"region"`
	Cluster  cluster            `json:"cluster"`
	Types    []*v1.EC2NodeClass `json:"types"`
	Launches []launch           `json:"launches"`
	Errors   []fleetError       `json:"errors"`
	Hashes   []*v1.EC2NodeClass `json:"hashes"`
}

type cluster struct {
	Name     string `json:"name"`
	Endpoint string `json:"endpoint"`
	CABundle string `json:"caBundle"`
	DNSIP    string `json:"dnsIP"`
}

type launch struct {
	NodeClass *v1.EC2NodeClass  `json:"nodeClass"`
	NodeClaim *karpv1.NodeClaim `json:"nodeClaim"`
}

type fleetError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// answer has one entry for each that was asked for, in the same order; templates are those of all launches, by name.
type answer struct {
	Types     [][]instanceType `json:"types"`
	Launches  []launched       `json:"launches"`
	Templates map[string]any   `json:"templates"`
	Errors    []classification `json:"errors"`
	Hashes    []string         `json:"hashes"`
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return fmt.Errorf("reading the question, %w", err)
	}
	given := answer{Templates: map[string]any{}}
	for _, each := range asked.Errors {
		given.Errors = append(given.Errors, classify(each))
	}
	for _, each := range asked.Hashes {
		given.Hashes = append(given.Hashes, each.Hash(&asked.Cluster.CABundle))
	}
	if len(asked.Types)+len(asked.Launches) > 0 {
		if err := askAccount(ctx, asked, &given); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(given)
}

func askAccount(ctx context.Context, asked question, given *answer) error {
	ctx, account, err := newAccount(ctx, asked)
	if err != nil {
		return err
	}
	for _, each := range asked.Types {
		listed, err := account.typesOf(ctx, each)
		if err != nil {
			return fmt.Errorf("listing the types of %s, %w", each.Name, err)
		}
		given.Types = append(given.Types, listed)
	}
	for _, each := range asked.Launches {
		given.Launches = append(given.Launches, account.launch(ctx, each))
	}
	given.Templates = account.ec2.templates
	return nil
}
