//go:build unix && !linux

package stack

import "syscall"

// ownGroup puts a child in a process group of its own. There is no parent-death signal here: a program that is killed leaves its servers.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
