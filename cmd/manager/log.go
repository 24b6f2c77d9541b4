package main

import "github.com/go-logr/logr"

// probesUnlogged is a library's log without what controller-runtime says of probes:
// a line for each one that fails, every few seconds and without the reason. Who
// probes gets the reason; the reporter and the manager's watches log theirs once.
type probesUnlogged struct {
	logr.LogSink
	muted bool
}

// probesLogger is the name of controller-runtime's log of probes.
const probesLogger = "healthz"

func (s probesUnlogged) Enabled(level int) bool { return !s.muted && s.LogSink.Enabled(level) }

func (s probesUnlogged) Error(err error, message string, values ...any) {
	if !s.muted {
		s.LogSink.Error(err, message, values...)
	}
}

func (s probesUnlogged) WithName(name string) logr.LogSink {
	return probesUnlogged{s.LogSink.WithName(name), s.muted || name == probesLogger}
}

func (s probesUnlogged) WithValues(values ...any) logr.LogSink {
	return probesUnlogged{s.LogSink.WithValues(values...), s.muted}
}
