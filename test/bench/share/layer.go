package share

import "strings"

// Layer is a part of the provider's process.
type Layer string

// The layers.
const (
	Ours    Layer = "ours"
	GRPC    Layer = "gRPC and protobuf"
	HTTP    Layer = "net/http and TLS"
	Runtime Layer = "runtime and kernel"
	// Other is what no frame of the stack belongs to a layer for.
	Other Layer = "other"
)

// Layers are all layers, in the order in which they are printed.
var Layers = []Layer{Ours, GRPC, HTTP, Runtime, Other}

// own is where the provider's code lives. What else is in the module is no part of the provider.
const own = "github.com/baokms/baokms/internal/provider"

// roots are the packages of the layers, each with all packages below it. A package that is not here, such as encoding/json, bytes or a
// library of ours, belongs to whoever calls it.
var roots = []struct {
	path  string
	layer Layer
}{
	{own, Ours},
	{"google.golang.org/grpc", GRPC},
	{"google.golang.org/protobuf", GRPC},
	{"golang.org/x/net/http2", GRPC},
	{"k8s.io/kms", GRPC}, // the generated messages
	{"net/http", HTTP},
	{"crypto", HTTP},
	{"vendor/golang.org/x", HTTP}, // the standard library's copies, for HTTP/2 and TLS
	{"runtime", Runtime},
	{"internal/runtime", Runtime},
	{"syscall", Runtime},
	{"internal/poll", Runtime},
	{"internal/syscall", Runtime},
}

// layerOf is the layer that a function belongs to by its package; "" when it belongs to its caller.
func layerOf(function string) Layer {
	pkg := packageOf(function)
	switch pkg {
	case "net", "os":
		return Runtime
	}
	for _, r := range roots {
		if rest, ok := strings.CutPrefix(pkg, r.path); ok && (rest == "" || rest[0] == '/') {
			return r.layer
		}
	}
	return ""
}

// packageOf is the import path of a function's name as profiles have it: "a/b.F", "a/b.(*T).M", "a/b.F[...]".
func packageOf(function string) string {
	// The types in brackets and parentheses may have slashes and dots of their own.
	if i := strings.IndexAny(function, "[("); i >= 0 {
		function = function[:i]
	}
	slash := strings.LastIndexByte(function, '/')
	dot := strings.IndexByte(function[slash+1:], '.')
	if dot < 0 {
		return function
	}
	return function[:slash+1+dot]
}
