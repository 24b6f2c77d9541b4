package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/baokms/baokms/api/v1alpha1"
)

// LeaseName is the name of the manager's lease.
const LeaseName = "bao-kms-manager"

// The defaults of leader election.
const (
	DefaultLeaseDuration = 15 * time.Second
	DefaultRenewDeadline = 10 * time.Second
	DefaultRetryPeriod   = 2 * time.Second
)

// Requests in a second and at once: a hundred plans that change together are
// written within seconds, and an API server is not flooded.
const (
	qps   = 50
	burst = 100
)

// Options say how the manager runs. The zero value is one replica without a lease
// that serves neither probes nor metrics.
type Options struct {
	// LeaderElection lets one of several replicas work; LeaseNamespace is where the
	// lease is, required with it.
	LeaderElection bool
	LeaseNamespace string
	// LeaseDuration is for how long a lease that is not renewed counts: another
	// replica takes over within it when the leader fails, and at once when that ends
	// in good order. RenewDeadline is for how long the leader tries to renew it
	// before it gives up and Run fails, RetryPeriod the time between two tries. Each
	// must be well below the one before; zero means the default.
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration
	// Probes is the address of /healthz and /readyz; empty serves none.
	Probes string
	// Metrics is the address of /metrics; empty serves none. It is HTTPS for those
	// whom the API server knows and allows to get /metrics, with the certificate
	// tls.crt and tls.key of MetricsCertificates, or a self-signed one when that is
	// empty. PlainMetrics serves HTTP for everyone instead, and needs a loopback
	// address.
	Metrics             string
	MetricsCertificates string
	PlainMetrics        bool
	// Concurrency is how many plans are judged at once; zero means 1.
	Concurrency int
	// Logger gets what happens; nil discards it.
	Logger *slog.Logger
}

// complete checks the options and fills in the defaults.
func (o Options) complete() (Options, error) {
	var errs []error
	if o.LeaderElection && o.LeaseNamespace == "" {
		errs = append(errs, errors.New("leader election needs a namespace for its lease"))
	}
	o.LeaseDuration = cmp.Or(o.LeaseDuration, DefaultLeaseDuration)
	o.RenewDeadline = cmp.Or(o.RenewDeadline, DefaultRenewDeadline)
	o.RetryPeriod = cmp.Or(o.RetryPeriod, DefaultRetryPeriod)
	// The lease counts in whole seconds.
	if o.LeaseDuration < time.Second || o.RetryPeriod <= 0 || o.RenewDeadline >= o.LeaseDuration || 2*o.RetryPeriod > o.RenewDeadline {
		errs = append(errs, fmt.Errorf("a lease of %s, renewed within %s by a try each %s, cannot be held: make the first a second at least and longer than the second, and the last half of that at most",
			o.LeaseDuration, o.RenewDeadline, o.RetryPeriod))
	}
	if o.Concurrency < 0 {
		errs = append(errs, errors.New("the concurrency is negative"))
	}
	if o.PlainMetrics && o.Metrics != "" {
		host, _, err := net.SplitHostPort(o.Metrics)
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			errs = append(errs, errors.New("metrics without TLS and authorization are served on a loopback IP address only, such as 127.0.0.1:8080"))
		}
	}
	o.Concurrency = max(1, o.Concurrency)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, errors.Join(errs...)
}

// Check says what is wrong with the options; Run would say the same.
func (o Options) Check() error {
	_, err := o.complete()
	return err
}

// Run reconciles plans until ctx ends and returns nil then, after what runs has
// ended and the lease is given back. It returns an error when it cannot start,
// loses its lease, or does not find the kinds of kms.baokms.io within two minutes.
// After an error the process has to end.
func Run(ctx context.Context, cluster *rest.Config, o Options) error {
	o, err := o.complete()
	if err != nil {
		return err
	}
	cluster = rest.CopyConfig(cluster)
	cluster.QPS, cluster.Burst = qps, burst
	options, err := o.manager(cluster)
	if err != nil {
		return err
	}
	m, err := manager.New(cluster, options)
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	if err := add(m, o.Concurrency); err != nil {
		return err
	}
	if o.Metrics != "" {
		if err := m.Add(&exporter{collector{client: m.GetClient(), now: time.Now}}); err != nil {
			return fmt.Errorf("adding the metrics of plans: %w", err)
		}
	}
	if err := errors.Join(m.AddHealthzCheck("ping", healthz.Ping), m.AddReadyzCheck("cache", cacheCheck(m))); err != nil {
		return fmt.Errorf("adding probes: %w", err)
	}
	if err := m.Start(ctx); err != nil {
		return fmt.Errorf("running the manager: %w; if the API server does not know its kinds or refuses to list them, apply config/crd and config/rbac", err)
	}
	return nil
}

// manager are the options in controller-runtime's words.
func (o Options) manager(cluster *rest.Config) (manager.Options, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return manager.Options{}, err
	}
	options := manager.Options{
		Scheme:                        scheme,
		Logger:                        logr.FromSlogHandler(o.Logger.Handler()),
		Cache:                         cache.Options{DefaultTransform: lean},
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              LeaseName,
		LeaderElectionNamespace:       o.LeaseNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 new(o.LeaseDuration),
		RenewDeadline:                 new(o.RenewDeadline),
		RetryPeriod:                   new(o.RetryPeriod),
		HealthProbeBindAddress:        o.Probes,
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		// One process may run it again, as tests do.
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	}
	if o.Metrics != "" {
		options.Metrics.BindAddress = o.Metrics
		if !o.PlainMetrics {
			options.Metrics.SecureServing = true
			options.Metrics.CertDir = o.MetricsCertificates
			options.Metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
		}
	}
	if o.LeaderElection {
		lock, err := o.lease(cluster)
		if err != nil {
			return manager.Options{}, err
		}
		options.LeaderElectionResourceLockInterface = lock
	}
	return options, nil
}

// lean is what the cache keeps of an object: what is read, and no more.
func lean(o any) (any, error) {
	if m, ok := o.(*metav1.PartialObjectMetadata); ok {
		return onlyLabels(m), nil
	}
	return cache.TransformStripManagedFields()(o)
}

// lease is the lock of leader election. It tells no Events: those would need a
// right more, and the lease says who holds it.
func (o Options) lease(cluster *rest.Config) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("leader election needs a host name: %w", err)
	}
	cluster = rest.AddUserAgent(cluster, "leader-election")
	// A call that hangs must not cost the lease.
	cluster.Timeout = o.RenewDeadline / 2
	leases, err := coordinationv1.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("making the client of the lease: %w", err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: o.LeaseNamespace, Name: LeaseName},
		Client:     leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}, nil
}

// cacheCheck is ready on a replica that waits for the lease, and on the leader
// once it has read all plans and reports.
func cacheCheck(m manager.Manager) healthz.Checker {
	return func(req *http.Request) error {
		select {
		case <-m.Elected():
		default:
			return nil
		}
		for _, o := range []client.Object{&v1alpha1.KMSRotationPlan{}, &v1alpha1.KMSNodeReport{}} {
			informer, err := m.GetCache().GetInformer(req.Context(), o, cache.BlockUntilSynced(false))
			if err != nil {
				return fmt.Errorf("plans and reports cannot be read yet: %w; check that config/crd is applied", err)
			}
			if !informer.HasSynced() {
				return errors.New("not all plans and reports have been read yet: if it stays so, see the log, and whether config/crd and config/rbac are applied")
			}
		}
		return nil
	}
}
