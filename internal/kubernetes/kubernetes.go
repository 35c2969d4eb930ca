// Package kubernetes finds the pods of a plan's targets in a Kubernetes cluster, and starts agents there as a Job. It
// asks kubectl, which knows the user's clusters and signs in to them in every way that they need.
package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Found is what a cluster has for a target.
type Found struct {
	// Endpoints are the base URLs of the ready pods behind the Service, sorted. Empty if no Service is named.
	Endpoints []string
	// Metrics are the URLs of the metrics of the selected pods that are ready, sorted. Empty if no pods are selected.
	Metrics []string
	// Roles are what the pods behind Metrics do, by URL. Pods without a label of a role have none.
	Roles map[string]string
}

// Look finds the pods of a target. It runs kubectl, and blocks until that has answered. The error says what is missing.
func Look(ctx context.Context, t *spatev1.KubernetesTarget) (Found, error) {
	return look(t, func(to any, args ...string) error { return get(ctx, t, to, args...) })
}

// look finds the pods of a target by what kubectl's get answers.
func look(t *spatev1.KubernetesTarget, get func(to any, args ...string) error) (f Found, err error) {
	port := 0
	if t.GetService() != "" {
		var list struct{ Items []slice }
		if err := get(&list, "endpointslices", "--selector=kubernetes.io/service-name="+t.GetService()); err != nil {
			return Found{}, err
		}
		if f.Endpoints, port, err = endpoints(t, list.Items); err != nil {
			return Found{}, err
		}
	}
	if t.GetMetricsSelector() == "" {
		return f, nil
	}
	if t.GetMetricsPort() > 0 {
		port = int(t.GetMetricsPort())
	}
	var list struct{ Items []pod }
	if err := get(&list, "pods", "--selector="+t.GetMetricsSelector()); err != nil {
		return Found{}, err
	}
	f.Metrics, f.Roles, err = metrics(t, port, list.Items)
	return f, err
}

// slice is the part of a Kubernetes EndpointSlice (discovery.k8s.io/v1) that is needed.
type slice struct {
	Endpoints []struct {
		Addresses  []string
		Conditions struct{ Ready *bool }
	}
	Ports []struct {
		Name *string
		Port *int
	}
}

// pod is the part of a Kubernetes Pod that is needed.
type pod struct {
	Metadata struct {
		Name                string
		Labels, Annotations map[string]string
	}
	Status struct {
		Phase, PodIP      string
		Conditions        []condition
		ContainerStatuses []struct {
			State map[string]struct{ Reason, Message string }
		}
	}
}

type condition struct{ Type, Status, Message string }

// endpoints returns the base URLs of the ready pods in a list of EndpointSlices, and their port.
func endpoints(t *spatev1.KubernetesTarget, all []slice) (urls []string, port int, err error) {
	if len(all) == 0 {
		return nil, 0, fmt.Errorf("there is no Service %s with pods%s", t.GetService(), in(t))
	}
	found, waiting := map[string]bool{}, 0
	for _, s := range all {
		if port, err = portOf(t, s); err != nil {
			return nil, 0, err
		}
		for _, e := range s.Endpoints {
			switch {
			case e.Conditions.Ready != nil && !*e.Conditions.Ready:
				waiting++
			case len(e.Addresses) > 0: // the others, if any, are of the same pod
				found["http://"+net.JoinHostPort(e.Addresses[0], strconv.Itoa(port))] = true
			}
		}
	}
	if len(found) == 0 {
		return nil, 0, fmt.Errorf("no pod behind Service %s is ready%s, and %d are not", t.GetService(), in(t), waiting)
	}
	return slices.Sorted(maps.Keys(found)), port, nil
}

// portOf returns the port of the pods in a slice that a target asks for.
func portOf(t *spatev1.KubernetesTarget, s slice) (int, error) {
	if n, err := strconv.Atoi(t.GetPort()); err == nil {
		return n, nil
	}
	var names []string
	for _, p := range s.Ports {
		name := *cmp.Or(p.Name, new(""))
		if p.Port != nil && (name == t.GetPort() || t.GetPort() == "" && len(s.Ports) == 1) {
			return *p.Port, nil
		}
		names = append(names, strconv.Quote(name))
	}
	if t.GetPort() != "" {
		return 0, fmt.Errorf("service %s%s has no port %q; it has %s", t.GetService(), in(t), t.GetPort(),
			strings.Join(names, ", "))
	}
	return 0, fmt.Errorf("service %s%s has %d ports (%s): name one by port", t.GetService(), in(t), len(s.Ports),
		strings.Join(names, ", "))
}

// in says where, for a sentence.
func in(t *spatev1.KubernetesTarget) string {
	where := " in the namespace of kubectl's context"
	if t.GetNamespace() != "" {
		where = " in namespace " + t.GetNamespace()
	}
	if t.GetContext() != "" {
		where += " of context " + t.GetContext()
	}
	return where
}

// roleLabels are labels that say what a pod does, of llm-d, of Dynamo and of Kubernetes' own recommendation. The first
// that a pod has counts.
var roleLabels = []string{
	"llm-d.ai/role", "nvidia.com/dynamo-sub-component-type", "nvidia.com/dynamo-component-type",
	"app.kubernetes.io/component",
}

// metrics returns the URLs of the metrics of the ready pods in a list, and their roles.
func metrics(t *spatev1.KubernetesTarget, port int, pods []pod) ([]string, map[string]string, error) {
	if port == 0 {
		return nil, nil, errors.New("the port of the selected pods' metrics is not known: give it by metrics_port")
	}
	roles := map[string]string{}
	var urls []string
	for _, pod := range pods {
		ready := slices.ContainsFunc(pod.Status.Conditions,
			func(c condition) bool { return c.Type == "Ready" && c.Status == "True" })
		if !ready || pod.Status.PodIP == "" {
			continue
		}
		url := "http://" + net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(port)) + "/metrics"
		urls = append(urls, url)
		for _, label := range roleLabels {
			if role := pod.Metadata.Labels[label]; role != "" && roles[url] == "" {
				roles[url] = role
			}
		}
	}
	if len(urls) == 0 {
		return nil, nil, fmt.Errorf("no pod with %s is ready%s, of %d found", t.GetMetricsSelector(), in(t), len(pods))
	}
	slices.Sort(urls)
	return slices.Compact(urls), roles, nil
}
