# SPDX-License-Identifier: Apache-2.0
# An existing EKS cluster prepared by hand, as old notes do it: aws, kubectl and helm, and nothing else.
#
# CLUSTER_NAME names the cluster, CHARTS our charts, POLICIES a directory with the controller's policies, a file each,
# named after the policy.
set -eu

OIDC_ENDPOINT="$(aws eks describe-cluster --name "${CLUSTER_NAME}" --query "cluster.identity.oidc.issuer" --output text)"
AWS_ACCOUNT_ID="$(aws sts get-caller-identity --query 'Account' --output text)"
OIDC_PROVIDER="${OIDC_ENDPOINT#*//}"

# The node role with its four policies, and the instance profile.
cat > node-trust-policy.json <<EOF
{
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ]
}
EOF
aws iam create-role --role-name "KarpenterNodeRole-${CLUSTER_NAME}" \
    --assume-role-policy-document file://node-trust-policy.json
for POLICY in AmazonEKSWorkerNodePolicy AmazonEKS_CNI_Policy AmazonEC2ContainerRegistryReadOnly \
    AmazonSSMManagedInstanceCore; do
    aws iam attach-role-policy --role-name "KarpenterNodeRole-${CLUSTER_NAME}" \
        --policy-arn "arn:aws:iam::aws:policy/${POLICY}"
done
aws iam create-instance-profile --instance-profile-name "KarpenterNodeInstanceProfile-${CLUSTER_NAME}"
aws iam add-role-to-instance-profile --instance-profile-name "KarpenterNodeInstanceProfile-${CLUSTER_NAME}" \
    --role-name "KarpenterNodeRole-${CLUSTER_NAME}"

# The controller role, trusted by the cluster's OIDC provider for the controller's service account, and its policies.
cat > controller-trust-policy.json <<EOF
{
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Federated": "arn:aws:iam::${AWS_ACCOUNT_ID}:oidc-provider/${OIDC_PROVIDER}"},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": {
                "StringEquals": {
                    "${OIDC_PROVIDER}:aud": "sts.amazonaws.com",
                    "${OIDC_PROVIDER}:sub": "system:serviceaccount:karpenter:karpenter"
                }
            }
        }
    ]
}
EOF
aws iam create-role --role-name "KarpenterControllerRole-${CLUSTER_NAME}" \
    --assume-role-policy-document file://controller-trust-policy.json
for FILE in "${POLICIES}"/*.json; do
    aws iam put-role-policy --role-name "KarpenterControllerRole-${CLUSTER_NAME}" \
        --policy-name "$(basename "${FILE}" .json)" --policy-document "file://${FILE}"
done

# The subnets of the node groups, and the cluster's security group.
for NODEGROUP in $(aws eks list-nodegroups --cluster-name "${CLUSTER_NAME}" --query 'nodegroups' --output text); do
    aws ec2 create-tags --tags "Key=karpenter.sh/discovery,Value=${CLUSTER_NAME}" \
        --resources $(aws eks describe-nodegroup --cluster-name "${CLUSTER_NAME}" --nodegroup-name "${NODEGROUP}" \
            --query 'nodegroup.subnets' --output text)
done
SECURITY_GROUPS="$(aws eks describe-cluster --name "${CLUSTER_NAME}" \
    --query 'cluster.resourcesVpcConfig.clusterSecurityGroupId' --output text)"
aws ec2 create-tags --tags "Key=karpenter.sh/discovery,Value=${CLUSTER_NAME}" --resources "${SECURITY_GROUPS}"

# One more entry in aws-auth, written by an editor as a person would.
cat > editor.sh <<EOF
sed -i '/^kind: ConfigMap/i\\
    - rolearn: arn:aws:iam::${AWS_ACCOUNT_ID}:role/KarpenterNodeRole-${CLUSTER_NAME}\\
      username: system:node:{{EC2PrivateDNSName}}\\
      groups: [system:bootstrappers, system:nodes]
' "\$1"
EOF
KUBE_EDITOR="sh ${PWD}/editor.sh" kubectl edit configmap aws-auth -n kube-system

# The charts, with the names that the settings had then.
helm upgrade --install karpenter-crd "${CHARTS}/karpenter-crd" --namespace karpenter --create-namespace --take-ownership
helm upgrade --install karpenter "${CHARTS}/karpenter" --namespace karpenter \
    --set settings.aws.defaultInstanceProfile="KarpenterNodeInstanceProfile-${CLUSTER_NAME}" \
    --set settings.aws.clusterName="${CLUSTER_NAME}" \
    --set serviceAccount.annotations."eks\.amazonaws\.com/role-arn"="arn:aws:iam::${AWS_ACCOUNT_ID}:role/KarpenterControllerRole-${CLUSTER_NAME}" \
    --set controller.resources.requests.cpu=1 \
    --set controller.resources.requests.memory=1Gi \
    --set controller.resources.limits.cpu=1 \
    --set controller.resources.limits.memory=1Gi \
    --set replicas=2
