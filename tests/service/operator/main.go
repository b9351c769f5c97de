// Command operator reads an object of the Prometheus Operator, or a Grafana dashboard, as their own
// types, and fails for a field that the type does not have or that has a wrong value:
// `operator KIND FILE`.
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

func check(kind string, data []byte) error {
	switch kind {
	case "Dashboard":
		plugins.RegisterDefaultPlugins()
		found := dashboard.Dashboard{}
		if err := found.UnmarshalJSONStrict(data); hasText(err) {
			return err
		}
		return found.Validate()
	case "PodMonitor":
		return yaml.UnmarshalStrict(data, &monitoring.PodMonitor{})
	case "PrometheusRule":
		return yaml.UnmarshalStrict(data, &monitoring.PrometheusRule{})
	}
	return fmt.Errorf("unknown kind %q", kind)
}

// hasText reports whether something is wrong: Grafana's types return an error without text otherwise.
func hasText(err error) bool {
	return err != nil && err.Error() != ""
}

func main() {
	data, err := os.ReadFile(os.Args[2])
	if err == nil {
		err = check(os.Args[1], data)
	}
	if hasText(err) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
