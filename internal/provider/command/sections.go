package command

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// key tells the registry and Transit side by side. One of them may be nil.
func (p *page) key(reg *Registry, transit *Transit) {
	if reg != nil {
		p.heading("Registry (this node)")
		p.yaml("generation", strconv.FormatUint(reg.Generation, 10))
		p.yaml("stateHash", reg.StateHash)
		if !reg.ComparedWithTransit {
			p.paragraph(lead{indent: 2}, 2, "local state only: not compared with OpenBao")
		}
	}
	if transit != nil {
		p.heading("Transit key (OpenBao)")
		p.facts(2, transitFacts(transit))
	}
	rows := versions(reg, transit)
	if len(rows) == 0 {
		return
	}
	p.heading("Versions")
	p.table(2, []column{{"version", true}, {"node", false}, {"OpenBao", false}, {"key_id hash", false}}, rows)
	for _, of := range meanings {
		if slices.ContainsFunc(rows, func(row []string) bool { return row[2] == of.name }) {
			p.paragraph(lead{2, of.name + ":", plain, 1}, 4, of.value)
		}
	}
}

// meanings explain what OpenBao may say of a version that this node knows.
var meanings = []fact{
	{Differs, "OpenBao tells another creation time than the one that this node recorded"},
	{Missing, "this node knows the version, OpenBao does not list it"},
	{Blocked, "a minimum in OpenBao forbids decryption with the version"},
}

// transitFacts are what OpenBao says of the key, in OpenBao's own field names.
func transitFacts(t *Transit) []fact {
	upsert := "not read"
	if t.UpsertDisabled != nil {
		upsert = strconv.FormatBool(*t.UpsertDisabled)
	}
	rotate := "never"
	if t.AutoRotateSeconds != 0 {
		rotate = fmt.Sprintf("%ds", t.AutoRotateSeconds)
	}
	created := make([]string, len(t.Versions))
	for i, v := range t.Versions {
		created[i] = fmt.Sprintf("%d at %s", v.Version, cmp.Or(string(v.CreatedAt), "an unknown time"))
	}
	return []fact{
		{"type", t.Type},
		{"latest_version", strconv.Itoa(t.LatestVersion)},
		{"min_decryption_version", minimum(t.MinDecryptionVersion)},
		{"min_encryption_version", minimum(t.MinEncryptionVersion)},
		{"min_available_version", minimum(t.MinAvailableVersion)},
		{"disable_upsert", upsert},
		{"auto_rotate_period", rotate},
		{"created", strings.Join(created, ", ")},
	}
}

func minimum(v int) string {
	if v <= 1 {
		return fmt.Sprintf("%d (no limit)", v)
	}
	return strconv.Itoa(v)
}

// versions are the rows of all versions that the node or OpenBao knows, ascending.
func versions(reg *Registry, transit *Transit) [][]string {
	rows := map[int][]string{}
	if transit != nil {
		for _, v := range transit.Versions {
			node := "not seen"
			if v.Known {
				node = "known"
			}
			rows[v.Version] = []string{strconv.Itoa(v.Version), node, "listed", nothing}
		}
	}
	if reg != nil {
		for _, s := range reg.Snapshots {
			in := s.InTransit
			if !reg.ComparedWithTransit {
				in = "not compared"
			}
			rows[s.TransitVersion] = []string{
				strconv.Itoa(s.TransitVersion), cmp.Or(s.State, nothing), cmp.Or(in, nothing), cmp.Or(s.KeyIDHash, nothing),
			}
		}
	}
	var all [][]string
	for _, v := range slices.Sorted(maps.Keys(rows)) {
		all = append(all, rows[v])
	}
	return all
}

// rotation tells where the node stands and what will happen.
func (p *page) rotation(r *Rotation) {
	p.heading(joined(": ", "Rotation", r.State))
	var all []fact
	if r.ActiveVersion != 0 || r.ActiveKeyIDHash != "" {
		all = append(all, fact{"active", version(r.ActiveVersion, r.ActiveKeyIDHash)})
	}
	if n := r.Pending; n != nil {
		observed := fmt.Sprintf("%d of %d", n.Observations, n.Required)
		if n.Stable {
			observed += ", stable"
		}
		moment := "not told by a running provider"
		if n.EstimatedPromotion != "" {
			moment = string(n.EstimatedPromotion) + ", by the running provider's own countdown"
		}
		all = append(all, fact{"pending", version(n.TransitVersion, n.KeyIDHash)}, fact{"observed", observed}, fact{"promotion", moment})
	}
	p.facts(2, all)
	if len(r.Ahead) == 0 {
		return
	}
	p.heading("What comes next, if nothing changes in OpenBao")
	texts := make([]string, len(r.Ahead))
	for i, e := range r.Ahead {
		texts[i] = e.What
	}
	p.list(texts, func(i, indent int) {
		if when := r.Ahead[i].When; when != "" {
			l := lead{indent, "when:", plain, 1}
			p.paragraph(l, l.width(), when)
		}
	})
}

func version(v int, keyIDHash string) string {
	if keyIDHash == "" {
		return fmt.Sprintf("version %d", v)
	}
	return fmt.Sprintf("version %d, key_id hash %s", v, keyIDHash)
}

// yaml writes one field so that it can be pasted: a value that has no room on
// the line of its name is on the next, which is YAML too. No value, no line.
func (p *page) yaml(name, value string) {
	if value == "" {
		return
	}
	p.paragraph(lead{2, name + ":", plain, 1}, 4, value)
}

// change tells a retirement or restoration in the names of its fields (design:
// config-and-cli, retire-versions and restore-versions).
func (p *page) change(c *Change, result Result) {
	p.heading(changeTitle(c, result))
	if c.BeforeVersion != 0 {
		p.yaml("beforeVersion", strconv.Itoa(c.BeforeVersion))
	}
	if c.RemovedVersions != nil {
		p.yaml("removedVersions", numbers(c.RemovedVersions))
	}
	if c.RestoredVersions != nil {
		p.yaml("restoredVersions", numbers(c.RestoredVersions))
	}
	p.yaml("activeKeyIdHash", c.ActiveKeyIDHash)
	p.yaml("stateHash", c.StateHash)
	if c.NextGeneration != 0 {
		p.yaml("nextGeneration", strconv.FormatUint(c.NextGeneration, 10))
	}
	p.yaml("nextStateHash", c.NextStateHash)
	if c.Recovery {
		p.yaml("recovery", "true")
		p.b.WriteByte('\n') // no part of the fields
		p.paragraph(lead{indent: 2}, 2, "Recovery: OpenBao's minimum already forbids decryption with every version that goes.")
	}
}

func changeTitle(c *Change, result Result) string {
	switch {
	case c.Applied:
		return "Change: applied"
	case result == Fail:
		return "Change: refused, nothing was changed"
	case c.StateHash == c.NextStateHash:
		return "Change: none, there is nothing to do"
	}
	return "Change: planned, nothing was changed"
}

// numbers is a list in YAML.
func numbers(all []int) string {
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = strconv.Itoa(n)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// files tells what init wrote.
func (p *page) files(files []File) {
	p.heading("Files")
	for _, f := range files {
		text := fmt.Sprintf("%s (mode %s)", f.Name, f.Mode)
		if f.Target != "" {
			text += ", for " + f.Target
		}
		p.paragraph(lead{indent: 2}, 4, text)
		if f.Purpose != "" {
			p.paragraph(lead{indent: 6}, 6, f.Purpose)
		}
	}
}
