package main

import (
	"github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfbridge"
	shim "github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfshim"
)

// property is one input or output as the bridge makes it of Terraform's schema. A test compares it with the
// installed pulumi_aws.
type property struct {
	Type        string               `json:"type"`
	Input       bool                 `json:"input"`
	Required    bool                 `json:"required"`
	Computed    bool                 `json:"computed"`
	ForceNew    bool                 `json:"forceNew"`
	Secret      bool                 `json:"secret"`
	MaxItemsOne bool                 `json:"maxItemsOne"`
	Default     any                  `json:"default,omitempty"`
	AutoNamed   bool                 `json:"autoNamed"`
	Nested      map[string]*property `json:"nested,omitempty"`
}

// describe gives the properties of every resource by Pulumi's token and Pulumi's names: `--describe` prints it.
func describe(info tfbridge.ProviderInfo) map[string]map[string]*property {
	all := map[string]map[string]*property{}
	for name, resource := range info.Resources {
		found, ok := info.P.ResourcesMap().GetOk(name)
		if !ok {
			panic("terraform-provider-aws has no " + name)
		}
		all[string(resource.Tok)] = properties(found.Schema(), resource.Fields)
	}
	return all
}

func properties(schemas shim.SchemaMap, infos map[string]*tfbridge.SchemaInfo) map[string]*property {
	all := map[string]*property{}
	schemas.Range(func(name string, schema shim.Schema) bool {
		all[tfbridge.TerraformToPulumiNameV2(name, schemas, infos)] = describeOne(schema, infos[name])
		return true
	})
	return all
}

func describeOne(schema shim.Schema, info *tfbridge.SchemaInfo) *property {
	found := &property{
		Type:        schema.Type().String(),
		Input:       schema.Required() || schema.Optional(),
		Required:    schema.Required(),
		Computed:    schema.Computed(),
		ForceNew:    forceNew(schema),
		Secret:      schema.Sensitive(),
		MaxItemsOne: tfbridge.IsMaxItemsOne(schema, info),
		Default:     defaultOf(schema),
	}
	fields := map[string]*tfbridge.SchemaInfo{}
	if info != nil {
		if info.Default != nil {
			found.Default, found.AutoNamed = info.Default.Value, info.Default.AutoNamed
		}
		if info.Type != "" {
			found.Type = string(info.Type)
		}
		fields = info.Fields
		if info.Elem != nil {
			fields = info.Elem.Fields
		}
	}
	switch element := schema.Elem().(type) {
	case shim.Resource:
		found.Nested = properties(element.Schema(), fields)
	case shim.Schema:
		if inner, ok := element.Elem().(shim.Resource); ok {
			found.Nested = properties(inner.Schema(), fields)
		}
	}
	return found
}

// forceNew and defaultOf: the bridge's schemas of the plugin framework panic where the framework has no such notion.
func forceNew(schema shim.Schema) (found bool) {
	defer func() { _ = recover() }()
	return schema.ForceNew()
}

func defaultOf(schema shim.Schema) (found any) {
	defer func() { _ = recover() }()
	return schema.Default()
}
