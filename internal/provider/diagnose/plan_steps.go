package diagnose

import (
	"fmt"
	"os"
	"os/user"
	"strconv"

	"github.com/baokms/baokms/internal/provider/command"
	"github.com/baokms/baokms/internal/provider/config"
)

// The provider's unit, as deploy/systemd and the handbook name it.
const (
	stopProvider  = "systemctl stop bao-kms-provider"
	startProvider = "systemctl start bao-kms-provider"
)

// planSteps are what to do with a plan: review it, apply exactly it, and go on.
// There are none for a plan that changes nothing. The commands are for root's
// shell on the node.
func planSteps(o Options, t transition, c *command.Change) []command.Step {
	if c.StateHash == c.NextStateHash {
		return nil
	}
	apply := command.Step{
		Text: "Apply this plan; it is refused if the registry has changed since, or if its outcome would be another one",
		Commands: []string{asProvider() + "bao-kms-provider " + t.args + " --apply --expected-state-hash " + c.StateHash +
			" --expected-next-state-hash " + c.NextStateHash},
	}
	if o.ConfigPath != config.DefaultPath && (o.Getenv == nil || o.Getenv(config.EnvConfig) != o.ConfigPath) {
		apply.Text += "; add the --config that this command was given"
	}
	return append([]command.Step{
		{Text: t.review(c)},
		{Text: "Have this plan reviewed; " + t.compare + "every node has state hashes of its own and needs a plan of its own"},
		{
			Text:     "Stop the provider on this node: what is encrypted cannot be used through it meanwhile. Of a static pod, move the manifest away and wait until the container is gone",
			Commands: []string{stopProvider},
		},
		apply,
	}, t.after(c)...)
}

// start is the step after every apply.
var start = command.Step{
	Text:     "Start the provider (of a static pod, move the manifest back) and wait until /ready on server.healthAddress answers 200",
	Commands: []string{startProvider},
}

// AfterRetirement are the steps that remain once a retirement is applied on this
// node: the registry is each node's own, a minimum in OpenBao the same for all
// (handbook: rotation model, operator-controlled retirement). The bound of c must
// be one that this node's registry can have: what is active is not below it, and
// nothing below it decrypts.
func AfterRetirement(c *command.Change) []command.Step {
	if c.Recovery {
		return []command.Step{start, {
			Text: "Do the same on every other node, one after the other: OpenBao's minimum has stopped all of them",
		}}
	}
	return []command.Step{start,
		{Text: "Plan, review and apply on the other nodes, one after the other"},
		{Text: fmt.Sprintf("Only when 'retire-versions --before-version %[1]d' without --apply says on every node that there is nothing to do may "+
			"min_decryption_version be raised in OpenBao, to %[1]d at most; what was written under an older version, in a backup too, cannot be read from then on",
			c.BeforeVersion)},
	}
}

// AfterRestoration are the steps that remain once a restoration is applied.
func AfterRestoration(*command.Change) []command.Step {
	return []command.Step{start, {Text: "Do the same on every other node where these versions are removed, one after the other"}}
}

// asProvider is what turns root into the user that this process runs as, whose
// files the state is made of; empty when that is root, or a user without a name.
func asProvider() string {
	uid := os.Geteuid()
	if uid == 0 {
		return ""
	}
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return ""
	}
	return "runuser -u " + u.Username + " -- "
}
