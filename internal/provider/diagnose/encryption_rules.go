package diagnose

import (
	"fmt"
	"slices"
	"strings"
)

// What kube-apiserver demands of resources and names beyond their form.

// withoutREST are stored by the API server without being resources.
var withoutREST = []string{"apiserveripinfo", "serviceipallocations", "servicenodeportallocations"}

// resourceName judges one element of a list of resources.
func (r *encryptionReader) resourceName(s string, at place) {
	g := parseGroupResource(s)
	switch {
	case s == "":
		r.add(at, "is empty", "name a resource, for example secrets")
	case strings.ToLower(s) != s:
		r.add(at, "has capital letters", "write the resource in lower case and in the plural, for example secrets")
	case s == "*":
		r.add(at, "is * alone", "write '*.' for all resources of the core group, or '*.*' for all resources")
	case slices.Contains(withoutREST, s):
		r.add(at, "is no resource of the REST API", "remove it")
	case g.group == "events.k8s.io":
		r.add(at, "names events by a group in which they are not stored", "write events")
	case g.group == "extensions":
		r.add(at, "names the group extensions, which no longer exists", "name the group that the resource is in now")
	case g.group == "*" && g.resource != "*":
		r.add(at, "names one resource in all groups", "name the resource with its group, or write '*.*'")
	}
}

// overlaps judges a list of resources: with two that mean the same one, one of
// them would have no effect.
func (r *encryptionReader) overlaps(list []groupResource, at place) {
	var twice, overlap bool
	for i, a := range list {
		for j, b := range list {
			switch {
			case i == j:
			case a == b:
				twice = true
			case a == groupResource{"*", "*"}, a.group == b.group && (a.resource == "*" || b.resource == "*"):
				overlap = true
			}
		}
	}
	if twice {
		r.add(at, "names a resource twice", "remove one of them")
	}
	if overlap {
		r.add(at, "names a resource beside a wildcard that covers it", "remove the one or the other")
	}
}

// rules judges what the groups are to each other.
func (r *encryptionReader) rules(f *encryptionFile) {
	r.masked(f)
	names := map[string]bool{}
	for _, k := range f.entries() {
		// v1 names may repeat, but a v2 name must be nobody else's.
		if k.apiVersion == kmsVersion && names[k.name] {
			r.add(k.at, "has a name that an earlier kms provider has: names of apiVersion v2 are unique",
				"name all resources of one provider in one group")
		}
		names[k.name] = true
	}
}

// masked judges resources that an earlier wildcard takes away from a later list.
func (r *encryptionReader) masked(f *encryptionFile) {
	earlier := map[groupResource]bool{}
	for i, group := range f.groups {
		for j, g := range group.resources {
			if earlier[groupResource{"*", g.group}] || earlier[groupResource{"*", "*"}] {
				r.add(place{field: fmt.Sprintf("resources[%d].resources[%d]", i, j)}, "is covered by a wildcard of an earlier group, or is the same wildcard",
					"move its group before the one with the wildcard")
			}
		}
		// A list is not held against itself: the API server does, but then it has
		// refused the list for overlapping already.
		for _, g := range group.resources {
			earlier[g] = true
		}
	}
}
