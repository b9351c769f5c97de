// Command flux applies manifests as Flux's kustomize-controller does, with the rules `ignore` of a
// Kustomization, to the cluster of KUBECONFIG: `flux apply KUSTOMIZATION MANIFESTS`.
// `flux check HELMRELEASE` fails for a field that a HelmRelease does not have.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	helm "github.com/fluxcd/helm-controller/api/v2"
	kustomize "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/jsondiff"
	"github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

var owner = ssa.Owner{Field: "kustomize-controller", Group: kustomize.GroupVersion.Group}

func apply(kustomization, manifests []byte) error {
	found := kustomize.Kustomization{}
	if err := yaml.UnmarshalStrict(kustomization, &found); err != nil {
		return err
	}
	objects, err := utils.ReadObjects(bytes.NewReader(manifests))
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	cluster, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	options := ssa.DefaultApplyOptions()
	for _, rule := range found.Spec.Ignore {
		options.DriftIgnoreRules = append(options.DriftIgnoreRules, jsondiff.IgnoreRule{
			Paths:    rule.Paths,
			Selector: &jsondiff.Selector{Group: rule.Target.Group, Kind: rule.Target.Kind},
		})
	}
	manager := ssa.NewResourceManager(cluster, nil, owner)
	changes, err := manager.ApplyAll(context.Background(), objects, options)
	if err == nil {
		fmt.Println(changes)
	}
	return err
}

func run(command string, files ...string) error {
	texts := make([][]byte, len(files))
	for number, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		texts[number] = text
	}
	if command == "check" {
		return yaml.UnmarshalStrict(texts[0], &helm.HelmRelease{})
	}
	return apply(texts[0], texts[1])
}

func main() {
	if err := run(os.Args[1], os.Args[2:]...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
