package socket

import (
	"errors"
	"fmt"
	"math"
	"os/user"
	"strconv"
	"strings"
)

// LookupGroup returns the GID of a configured group: a decimal GID as it is,
// anything else looked up as a name. A name made of digits only cannot be
// given. Errors name the group and the next step.
func LookupGroup(group string) (int, error) {
	if group == "" {
		return 0, errors.New("socket group: none is given; set a group name or a decimal GID")
	}
	if strings.Trim(group, "0123456789") == "" {
		gid, err := strconv.ParseUint(group, 10, 32)
		// The largest number means "leave the group alone" to chown.
		if err != nil || gid == math.MaxUint32 {
			return 0, fmt.Errorf("socket group %s: is not a possible GID; give a number below %d or a group name", group, uint32(math.MaxUint32))
		}
		return int(gid), nil
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		if _, unknown := errors.AsType[user.UnknownGroupError](err); unknown {
			return 0, fmt.Errorf("socket group %q: no such group on this node; create it or give a decimal GID", group)
		}
		return 0, fmt.Errorf("socket group %q: cannot be looked up; give a decimal GID: %w", group, err)
	}
	gid, err := strconv.Atoi(g.Gid)
	if err != nil {
		return 0, fmt.Errorf("socket group %q: the system gives it the GID %q; give a decimal GID", group, g.Gid)
	}
	return gid, nil
}
