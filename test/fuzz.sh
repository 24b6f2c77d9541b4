#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other, for $1 each: a time
# such as 2m or a number of runs such as 4000x. A quiet line for each that found
# nothing; the fuzzer's own words otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."
duration=${1:?say how long each target runs, such as 2m or 4000x}
failed=0

# The fuzzer may report the end of its own time as a failure; a finding always
# comes with an input.
only_late() {
	grep -q '^ *context deadline exceeded$' <<<"$1" && ! grep -qE 'Failing input|--- FAIL: Fuzz[A-Za-z]*/' <<<"$1"
}

while IFS=: read -r file target; do
	package=./$(dirname "$file")
	if output=$(go test -run '^$' -fuzz "^$target\$" -fuzztime "$duration" -fuzzminimizetime 10x "$package" 2>&1) ||
		only_late "$output"; then
		echo "ok   $target in $package: $(grep -o 'execs: [0-9]*' <<<"$output" | tail -n 1)"
	else
		echo "FAIL $target in $package"
		echo "$output"
		failed=1
	fi
done < <(git ls-files --cached --others --exclude-standard '*_test.go' | xargs grep -ho -H '^func Fuzz[A-Za-z0-9]*' | sed 's/func //')
exit $failed
