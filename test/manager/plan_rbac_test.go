package manager

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/baokms/baokms/api/v1alpha1"
	"github.com/baokms/baokms/internal/controller/plan"
)

// managerNamespace is the one that config/ has.
const managerNamespace = "baokms-system"

// managerUser is the manager's service account, as the API server knows it.
func managerUser() rest.ImpersonationConfig {
	return rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + managerNamespace + ":bao-kms-manager",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + managerNamespace, "system:authenticated"},
	}
}

// manifests are the objects of a file of config/.
func manifests(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	all, err := readManifests(file)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func readManifests(file string) ([]*unstructured.Unstructured, error) {
	f, err := os.Open(filepath.Join(env.root, "config", filepath.FromSlash(file)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []*unstructured.Unstructured
	for d := utilyaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		o := &unstructured.Unstructured{}
		err := d.Decode(o)
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
}

// applyManifests creates the objects of files of config/, which stay: the tests
// share them.
func applyManifests(files ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}}
	if err := env.client.Create(ctx, system); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	for _, file := range files {
		all, err := readManifests(file)
		if err != nil {
			return err
		}
		for _, o := range all {
			if err := env.client.Create(ctx, o); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return nil
}

// managerRights applies config/rbac's files of the manager.
var managerRights = sync.OnceValue(func() error {
	return applyManifests("rbac/manager-role.yaml", "rbac/manager-binding.yaml", "rbac/manager-metrics-reader.yaml")
})

// applyManagerRights sees to the manager's rights, and returns what they grant:
// "namespace group/resource verb".
func applyManagerRights(t *testing.T) map[string]bool {
	t.Helper()
	if err := managerRights(); err != nil {
		t.Fatal(err)
	}
	granted := map[string]bool{}
	for _, o := range manifests(t, "rbac/manager-role.yaml") {
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, r := range role.Rules {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, verb := range r.Verbs {
						granted[exchange{namespace: o.GetNamespace(), group: group, resource: resource, verb: verb}.String()] = true
					}
				}
			}
		}
	}
	return granted
}

// freeAddress is an address of this machine that nobody listens on.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// bearer is a token of a service account in the namespace default that may, or may
// not, read metrics.
func bearer(t *testing.T, account string, mayRead bool) string {
	t.Helper()
	sa := create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account, Namespace: "default"}})
	if mayRead {
		create(t, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name(t, account)},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "bao-kms-manager-metrics-reader"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: sa.Name, Namespace: sa.Namespace}},
		})
	}
	request := &authenticationv1.TokenRequest{}
	if err := env.client.SubResource("token").Create(t.Context(), sa, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// scrape gets /metrics over HTTPS.
func scrape(g gomega.Gomega, address, token string) (int, string) {
	request, err := http.NewRequest(http.MethodGet, "https://"+address+"/metrics", nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	c := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // it signs its own
	}}
	answer, err := c.Do(request)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	return answer.StatusCode, string(body)
}

// olderServer answers as an API server that cannot begin a watch with all objects:
// its clients list.
func olderServer(r *http.Request) *http.Response {
	if r.URL.Query().Get("sendInitialEvents") == "" {
		return nil
	}
	refusal := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"sendInitialEvents is forbidden"}`
	return &http.Response{StatusCode: http.StatusUnprocessableEntity, Request: r, Body: io.NopCloser(strings.NewReader(refusal)),
		Header: http.Header{"Content-Type": {"application/json"}}}
}

// TestManagerRightsAreExact: the manager lives a whole life with the rights of
// config/rbac, on this API server and on an older one. It is refused nothing, and
// there is nothing that it does not use: a rule more or less in the role fails it.
func TestManagerRightsAreExact(t *testing.T) {
	t.Parallel()
	granted := applyManagerRights(t)
	// Its first replica ever makes the lease.
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: plan.LeaseName}}
	if err := client.IgnoreNotFound(env.client.Delete(t.Context(), lease)); err != nil {
		t.Fatal(err)
	}
	scraper, stranger := bearer(t, "scraper", true), bearer(t, "stranger", false)
	used := map[string]bool{}
	for server, meddle := range map[string]func(*http.Request) *http.Response{"this": nil, "older": olderServer} {
		t.Run(server, func(t *testing.T) {
			w := &wire{meddle: meddle}
			metrics := freeAddress(t)
			f := newFleet(t)
			stop := f.run(w.tap(env.config(managerUser())), func(o *plan.Options) {
				o.LeaderElection, o.LeaseNamespace = true, managerNamespace
				o.Metrics = metrics
			})
			p := f.wholeLife()
			eventually(t, func(g gomega.Gomega) {
				status, body := scrape(g, metrics, scraper)
				g.Expect(status).To(gomega.Equal(http.StatusOK))
				g.Expect(body).To(gomega.ContainSubstring(fmt.Sprintf("baokms_manager_plan_nodes{plan=%q} 1\n", p.Name)))
				g.Expect(body).To(gomega.ContainSubstring(`baokms_manager_plans{phase="Observing"} 1` + "\n"))
			})
			for token, want := range map[string]int{"": http.StatusUnauthorized, stranger: http.StatusForbidden} {
				if status, body := scrape(gomega.NewWithT(t), metrics, token); status != want || strings.Contains(body, "baokms_manager") {
					t.Errorf("somebody who may not read metrics is answered with %d, want %d", status, want)
				}
			}
			if status, body := scrape(gomega.NewWithT(t), metrics, "made-up"); status == http.StatusOK || strings.Contains(body, "baokms_manager") {
				t.Errorf("a made-up token is answered with %d", status)
			}
			eventually(t, func(g gomega.Gomega) {
				events := 0
				for _, e := range w.seen() {
					if e.resource == "events" && e.verb == "patch" {
						events++
					}
				}
				g.Expect(events).To(gomega.BeNumerically(">", 0))
			})
			stop()
			for _, e := range w.seen() {
				used[e.String()] = true
				if e.status == http.StatusForbidden || e.status == http.StatusUnauthorized {
					t.Errorf("%s was refused with %d", e, e.status)
				}
			}
		})
	}
	if got, want := slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(granted)); !slices.Equal(got, want) {
		t.Errorf("the manager used\n%q\nand config/rbac/manager-role.yaml grants\n%q", got, want)
	}
}

// wholeLife leads a plan with a selector through its stages, twice, so that an Event
// becomes a series.
func (f *fleet) wholeLife() *v1alpha1.KMSRotationPlan {
	f.t.Helper()
	role := map[string]string{f.provider: "yes"}
	create(f.t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.node(1), Labels: role}})
	p := f.plan("plan", 0, func(s *v1alpha1.KMSRotationPlanSpec) {
		s.Nodes = v1alpha1.NodeSet{Selector: &metav1.LabelSelector{MatchLabels: role}}
	})
	for range 2 {
		f.report(f.node(1), f.healthy(3, 7))
		f.phase(p, v1alpha1.RewriteSafe)
		f.report(f.node(1), v1alpha1.KMSNodeReportStatus{})
		f.phase(p, v1alpha1.Observing)
	}
	return p
}

// TestManagerManifests: the API server takes config/manager as it is.
func TestManagerManifests(t *testing.T) {
	t.Parallel()
	applyManagerRights(t)
	for _, file := range []string{"namespace.yaml", "deployment.yaml", "service.yaml", "disruption-budget.yaml"} {
		for _, o := range manifests(t, "manager/"+file) {
			if o.GetKind() == "Namespace" {
				o.SetName(o.GetName() + "-dry") // it is there
			}
			if err := env.client.Create(t.Context(), o, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}
