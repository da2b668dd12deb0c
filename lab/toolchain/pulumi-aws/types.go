package main

import (
	"strings"

	"github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfbridge"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"
)

type fields = map[string]*tfbridge.SchemaInfo

// resourceTypes says which of Terraform's types are served and by which token pulumi_aws asks for them: a line a type.
// ec2/Vpc stands for aws:ec2/vpc:Vpc. A test compares every one with the installed pulumi_aws.
var resourceTypes = map[string]string{
	"aws_budgets_budget":                                 "budgets/Budget",
	"aws_cloudwatch_event_rule":                          "cloudwatch/EventRule",
	"aws_cloudwatch_event_target":                        "cloudwatch/EventTarget",
	"aws_cloudwatch_log_group":                           "cloudwatch/LogGroup",
	"aws_cloudwatch_metric_alarm":                        "cloudwatch/MetricAlarm",
	"aws_default_security_group":                         "ec2/DefaultSecurityGroup",
	"aws_ec2_capacity_reservation":                       "ec2/CapacityReservation",
	"aws_ecr_lifecycle_policy":                           "ecr/LifecyclePolicy",
	"aws_ecr_repository":                                 "ecr/Repository",
	"aws_ecr_repository_policy":                          "ecr/RepositoryPolicy",
	"aws_eip":                                            "ec2/Eip",
	"aws_eks_access_entry":                               "eks/AccessEntry",
	"aws_eks_access_policy_association":                  "eks/AccessPolicyAssociation",
	"aws_eks_addon":                                      "eks/Addon",
	"aws_eks_cluster":                                    "eks/Cluster",
	"aws_eks_node_group":                                 "eks/NodeGroup",
	"aws_eks_pod_identity_association":                   "eks/PodIdentityAssociation",
	"aws_flow_log":                                       "ec2/FlowLog",
	"aws_fsx_data_repository_association":                "fsx/DataRepositoryAssociation",
	"aws_fsx_lustre_file_system":                         "fsx/LustreFileSystem",
	"aws_iam_instance_profile":                           "iam/InstanceProfile",
	"aws_iam_openid_connect_provider":                    "iam/OpenIdConnectProvider",
	"aws_iam_policy":                                     "iam/Policy",
	"aws_iam_role":                                       "iam/Role",
	"aws_iam_role_policy":                                "iam/RolePolicy",
	"aws_iam_role_policy_attachment":                     "iam/RolePolicyAttachment",
	"aws_internet_gateway":                               "ec2/InternetGateway",
	"aws_kms_alias":                                      "kms/Alias",
	"aws_kms_key":                                        "kms/Key",
	"aws_launch_template":                                "ec2/LaunchTemplate",
	"aws_nat_gateway":                                    "ec2/NatGateway",
	"aws_placement_group":                                "ec2/PlacementGroup",
	"aws_route":                                          "ec2/Route",
	"aws_route_table":                                    "ec2/RouteTable",
	"aws_route_table_association":                        "ec2/RouteTableAssociation",
	"aws_s3_bucket":                                      "s3/Bucket",
	"aws_s3_bucket_lifecycle_configuration":              "s3/BucketLifecycleConfiguration",
	"aws_s3_bucket_ownership_controls":                   "s3/BucketOwnershipControls",
	"aws_s3_bucket_policy":                               "s3/BucketPolicy",
	"aws_s3_bucket_public_access_block":                  "s3/BucketPublicAccessBlock",
	"aws_s3_bucket_server_side_encryption_configuration": "s3/BucketServerSideEncryptionConfiguration",
	"aws_s3_bucket_versioning":                           "s3/BucketVersioning",
	"aws_secretsmanager_secret":                          "secretsmanager/Secret",
	"aws_secretsmanager_secret_version":                  "secretsmanager/SecretVersion",
	"aws_security_group":                                 "ec2/SecurityGroup",
	"aws_security_group_rule":                            "ec2/SecurityGroupRule",
	"aws_sns_topic":                                      "sns/Topic",
	"aws_sns_topic_policy":                               "sns/TopicPolicy",
	"aws_sns_topic_subscription":                         "sns/TopicSubscription",
	"aws_subnet":                                         "ec2/Subnet",
	"aws_vpc":                                            "ec2/Vpc",
	"aws_vpc_endpoint":                                   "ec2/VpcEndpoint",
	"aws_vpc_security_group_egress_rule":                 "vpc/SecurityGroupEgressRule",
	"aws_vpc_security_group_ingress_rule":                "vpc/SecurityGroupIngressRule",
}

// functionTypes are Terraform's data sources, Pulumi's functions.
var functionTypes = map[string]string{
	"aws_availability_zone":   "index/getAvailabilityZone",
	"aws_availability_zones":  "index/getAvailabilityZones",
	"aws_caller_identity":     "index/getCallerIdentity",
	"aws_ec2_instance_type":   "ec2/getInstanceType",
	"aws_eks_addon_version":   "eks/getAddonVersion",
	"aws_eks_cluster":         "eks/getCluster",
	"aws_iam_policy_document": "iam/getPolicyDocument",
	"aws_partition":           "index/getPartition",
	"aws_region":              "index/getRegion",
	"aws_subnet":              "ec2/getSubnet",
	"aws_vpc":                 "ec2/getVpc",
}

// served holds every token of the two tables.
var served = func() map[string]bool {
	all := map[string]bool{}
	for _, token := range resourceTypes {
		all[member(token)] = true
	}
	for _, token := range functionTypes {
		all[member(token)] = true
	}
	return all
}()

// fieldsOf says where pulumi_aws differs from what the bridge makes of a schema by itself: another name, a single
// value instead of a list, a text that is JSON, a default, a name that Pulumi makes up. Names called "name" are made
// up everywhere (SetAutonaming in resources), so only other properties and other lengths stand here.
func fieldsOf() map[string]fields {
	single := true
	document := &tfbridge.SchemaInfo{Type: "string", Transform: tfbridge.TransformJSONDocument}
	return map[string]fields{
		"aws_cloudwatch_metric_alarm": {"alarm_name": tfbridge.AutoName("name", 255, "-")},
		"aws_default_security_group":  {"egress": {Name: "egress"}, "ingress": {Name: "ingress"}},
		"aws_ecr_lifecycle_policy":    {"policy": document},
		"aws_ecr_repository":          {"name": tfbridge.AutoNameTransform("name", 255, strings.ToLower)},
		"aws_ecr_repository_policy":   {"policy": document},
		"aws_eks_cluster":             {"certificate_authority": {Name: "certificateAuthority", MaxItemsOne: &single}},
		"aws_eks_node_group": {
			"node_group_name": tfbridge.AutoName("nodeGroupName", 255, "-"),
			"launch_template": {Name: "launchTemplate"},
		},
		"aws_iam_instance_profile": {"name": tfbridge.AutoName("name", 128, "-")},
		"aws_iam_policy":           {"name": tfbridge.AutoName("name", 128, "-"), "policy": document},
		"aws_iam_role":             {"name": tfbridge.AutoName("name", 64, "-"), "assume_role_policy": document},
		"aws_iam_role_policy":      {"policy": document},
		"aws_kms_alias": {"name": tfbridge.AutoNameTransform("name", 255, func(name string) string {
			return "alias/" + name
		})},
		"aws_kms_key":               {"policy": document},
		"aws_s3_bucket":             {"bucket": tfbridge.AutoNameTransform("bucket", 63, strings.ToLower)},
		"aws_s3_bucket_policy":      {"policy": document},
		"aws_secretsmanager_secret": {"policy": document},
		"aws_security_group": {
			"description": {Default: &tfbridge.DefaultInfo{Value: "Managed by Pulumi"}},
			"egress":      {Name: "egress"},
			"ingress":     {Name: "ingress"},
		},
		"aws_sns_topic":              {"policy": document},
		"aws_sns_topic_policy":       {"policy": document, "arn": {Name: "arn"}},
		"aws_sns_topic_subscription": {"topic_arn": {Name: "topic"}},
		"aws_vpc_endpoint":           {"policy": document},
	}
}

// config has pulumi-aws's defaults of the provider's own inputs.
func config() fields {
	return fields{
		"region":                      {Default: &tfbridge.DefaultInfo{EnvVars: []string{"AWS_REGION", "AWS_DEFAULT_REGION"}}},
		"skip_credentials_validation": {Default: &tfbridge.DefaultInfo{Value: false}},
		"skip_region_validation":      {Default: &tfbridge.DefaultInfo{Value: true}},
	}
}

// member is "ec2/Vpc" as "aws:ec2/vpc:Vpc".
func member(token string) string {
	module, name, _ := strings.Cut(token, "/")
	return plugin + ":" + module + "/" + strings.ToLower(name[:1]) + name[1:] + ":" + name
}

func resources() map[string]*tfbridge.ResourceInfo {
	all, special := map[string]*tfbridge.ResourceInfo{}, fieldsOf()
	for name, token := range resourceTypes {
		all[name] = &tfbridge.ResourceInfo{Tok: tokens.Type(member(token)), Fields: special[name]}
	}
	return all
}

func functions() map[string]*tfbridge.DataSourceInfo {
	all := map[string]*tfbridge.DataSourceInfo{}
	for name, token := range functionTypes {
		all[name] = &tfbridge.DataSourceInfo{Tok: tokens.ModuleMember(member(token))}
	}
	return all
}
