#!/usr/bin/env bash
# Quiet when the tree is as it should be; otherwise says what to do.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=0
fail() { echo "verify: $1" >&2; failed=1; }

unformatted=$(git ls-files --cached --others --exclude-standard '*.go' | xargs -r gofmt -l)
[ -z "$unformatted" ] || fail "not formatted, run gofmt -w: $(echo $unformatted)"
go vet ./... || fail "go vet found the above"
go tool staticcheck ./... || fail "staticcheck found the above"
(cd test/packaging && go vet ./...) || fail "go vet found the above in test/packaging"
go mod tidy -diff >/dev/null || fail "go.mod or go.sum is not tidy, run go mod tidy"
for module in test/servers/*/go.mod test/deploy/promql/go.mod test/packaging/go.mod; do
	(cd "$(dirname "$module")" && go mod verify >/dev/null) || fail "$module: a module does not match go.sum"
done
go test ./test/architecture >/dev/null || fail "an import rule is broken, run go test ./test/architecture"
diff -u docs/config.schema.json <(go run ./cmd/provider config schema) || fail "docs/config.schema.json is not current, run make generate"
go test ./cmd/... -run TestManPages >/dev/null || fail "docs/man is not current, run make generate"
go test ./api/v1alpha1 >/dev/null || fail "the generated files of the API are not current, run make generate"
exit $failed
