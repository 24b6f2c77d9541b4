#!/usr/bin/env bash
# Puts Prometheus' promtool and server where test/deploy looks for them, bin/tools,
# out of Debian's `prometheus` package: unpacked, not installed, so no service
# starts and no root is needed. Quiet when nothing is to be done, and when both
# are on PATH, which is where test/deploy looks first.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=(promtool prometheus)
dir=bin/tools

usable() { "$1" --version >/dev/null 2>&1; }
all() { local tool; for tool in "${tools[@]}"; do usable "$1$tool" || return 1; done; }
fail() { echo "tools: $1" >&2; exit 1; }

if all "" || all "$dir/"; then exit 0; fi

byhand="put promtool and prometheus (2.42 or newer) on PATH and run this again"
for need in apt-get dpkg-deb; do
	command -v "$need" >/dev/null || fail "there is no $need here to fetch Debian's prometheus package with: $byhand"
done

echo "tools: fetching Debian's prometheus package (19 MB) for promtool and prometheus, into $dir"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fetch() { (cd "$work" && apt-get download prometheus) >"$work/log" 2>&1; }
if ! fetch; then
	# A fresh machine has no list of packages, and an old list names a package that is gone.
	apt-get update >>"$work/log" 2>&1 || true
	fetch || { tail -n 3 "$work/log" >&2; fail "the package cannot be fetched: is there a network, and was apt-get update run as root? Or $byhand"; }
fi
mkdir -p "$dir"
dpkg-deb -x "$work"/prometheus_*.deb "$work/unpacked"
for tool in "${tools[@]}"; do
	if ! usable "$work/unpacked/usr/bin/$tool"; then
		ldd "$work/unpacked/usr/bin/$tool" 2>&1 | grep 'not found' >&2 || true
		fail "the package's $tool does not run on this machine: $byhand"
	fi
	mv "$work/unpacked/usr/bin/$tool" "$dir/$tool"
done
echo "tools: $("$dir/promtool" --version 2>&1 | head -n 1)"
