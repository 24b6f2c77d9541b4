package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/baokms/baokms/test/envelope"
)

const (
	objectNamespace = "default"
	objectName      = "demo"
	secretKey       = "/registry/secrets/" + objectNamespace + "/" + objectName
	password        = "correct horse battery staple"
	motto           = "a ConfigMap can be encrypted, too"
)

// play is the whole story.
func (w *world) play(ctx context.Context) error {
	w.title("A Secret, encrypted by a key that never leaves OpenBao")
	for _, part := range []func(context.Context) error{w.start, w.write, w.look, w.restart, w.watch, w.rotate, w.retire} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	w.title("Done. An API server that starts can read its Secrets only if OpenBao agrees.")
	w.say("DEMO_KEEP=1 make demo keeps it running. Next: docs/install.md")
	return nil
}

// act is a step with what it shows when it is done; show may be nil.
type act struct {
	text string
	do   func(context.Context) error
	show func()
}

// acts runs steps one after the other.
func (w *world) acts(ctx context.Context, acts []act) error {
	for _, a := range acts {
		if err := w.step(a.text, bounded(ctx, a.do)); err != nil {
			return err
		}
		if a.show != nil {
			a.show()
		}
	}
	return nil
}

func (w *world) start(ctx context.Context) error {
	for _, part := range []func(context.Context) error{
		w.server("Transit (OpenBao's engine): a key, a policy, and JWT login", w.startTransit),
		w.server("etcd", w.startEtcd),
		w.before,
		w.server("bao-kms-provider: logs in, proves the key, opens its socket", w.startProvider),
		w.after,
		w.server("kube-apiserver: encrypts Secrets and ConfigMaps through it", w.startAPIServer),
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// server is the step that starts one.
func (w *world) server(text string, do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error { return w.step(text, bounded(ctx, do)) }
}

// before writes the node's files, and has them looked at before anything is
// started with them.
func (w *world) before(ctx context.Context) error {
	if err := w.writeFiles(); err != nil {
		return err
	}
	out, err := w.doctor(ctx, "bao-kms-provider doctor: will this work?")
	if err == nil {
		w.quote(out)
	}
	return err
}

// after has the running provider looked at with the eyes of the API server.
func (w *world) after(ctx context.Context) error {
	out, err := w.doctor(ctx, "doctor again: would the API server find it?", "--encryption-config", w.encryption)
	if err == nil {
		w.say("%s", lastLine(out))
	}
	return err
}

func (w *world) write(ctx context.Context) error {
	return w.step("Write a Secret and a ConfigMap", bounded(ctx, func(ctx context.Context) error {
		core := w.api.Client().CoreV1()
		meta := metav1.ObjectMeta{Name: objectName}
		_, err := core.Secrets(objectNamespace).Create(ctx, &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"password": password}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		_, err = core.ConfigMaps(objectNamespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"motto": motto}}, metav1.CreateOptions{})
		return err
	}))
}

// look shows the raw bytes in etcd, and that the plaintext is not among them.
func (w *world) look(ctx context.Context) error {
	var e envelope.Envelope
	err := w.step("Read the raw Secret from etcd, past the API server", bounded(ctx, func(ctx context.Context) (err error) {
		raw, err := w.etcd.Get(ctx, secretKey)
		if err != nil {
			return err
		}
		if bytes.Contains(raw, []byte(password)) {
			return fmt.Errorf("the password is readable in etcd under %s", secretKey)
		}
		e, err = envelope.Parse(raw)
		return err
	}))
	if err != nil {
		return err
	}
	w.show("prefix", "k8s:enc:kms:v2:"+e.Provider+":")
	w.show("key_id", e.KeyID)
	w.show("wrapped seed", string(e.WrappedSeed))
	w.show("data", fmt.Sprintf("%x", e.Data))
	for _, key := range sorted(e.Annotations) {
		w.show("annotation", key+" = "+string(e.Annotations[key]))
	}
	return nil
}

func (w *world) restart(ctx context.Context) error {
	err := w.step("Restart the API server: it must ask for its seed again", bounded(ctx, w.api.Restart))
	if err != nil {
		return err
	}
	return w.step("Read both back", bounded(ctx, w.readBack))
}

func (w *world) readBack(ctx context.Context) error {
	core := w.api.Client().CoreV1()
	secret, err := core.Secrets(objectNamespace).Get(ctx, objectName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	configMap, err := core.ConfigMaps(objectNamespace).Get(ctx, objectName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if got := string(secret.Data["password"]); got != password {
		return fmt.Errorf("the Secret came back as %q", got)
	}
	if got := configMap.Data["motto"]; got != motto {
		return fmt.Errorf("the ConfigMap came back as %q", got)
	}
	return nil
}

func sorted(m map[string][]byte) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
