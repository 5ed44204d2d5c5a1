#!/usr/bin/env bash
# Builds Grafana's own dashboard-linter (tests/dashboards/test_grafana_linter.py), once: 75 MB in
# /opt/trackside-lab/linter. It needs Go 1.26, the Go module proxy (1.3 GB) and about four minutes of processor time, so
# it is no part of install.sh: make linter. Run as root.
#
# The reader of boards in schema v2 is left out: its types are in a module of Grafana that the proxy does not have. Ours
# are v1.
set -euo pipefail

target=/opt/trackside-lab/linter # as in tests/dashboards/test_grafana_linter.py
go=$(command -v go || echo /usr/local/go/bin/go)
module=github.com/grafana/dashboard-linter@v0.2.0
digest=h1:VV2GAwqCgY1VavwYD+Cw/tAeVXgFJxSIZnkEwgGUzJU= # as in go.sum

fail() {
    echo "tests/lab/linter/build.sh: $*" >&2
    exit 1
}

of_json() { sed -nE "s/^\t\"$1\": \"(.*)\",?$/\1/p"; }

[ ! -e "$target/.complete" ] || exit 0
[ -x "$go" ] || fail "there is no Go here; the test of the linter is skipped without it"
source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
cd "$source"
answer=$(GOFLAGS=-mod=mod "$go" mod download -json "$module") || fail "no module $module"
[ "$(of_json Sum <<<"$answer")" = "$digest" ] || fail "$module is not what it was: $(of_json Sum <<<"$answer")"
cp -r --no-preserve=mode "$(of_json Dir <<<"$answer")/." .
rm lint/*_test.go
cat >lint/v2.go <<'END'
package lint

import (
	"encoding/json"
	"errors"
)

func isV2APIVersion(version string) bool { return len(version) > 1 && version[:2] == "v2" }

func newDashboardFromV2(json.RawMessage, string) (Dashboard, error) {
	return Dashboard{}, errors.New("boards of schema v2 are not linted here")
}
END
mkdir -p "$target"
echo "building dashboard-linter (some minutes)"
CGO_ENABLED=0 nice -n 10 "$go" build -mod=mod -buildvcs=false -trimpath -ldflags "-s -w" -o "$target/dashboard-linter" . ||
    fail "go build failed; see above"
touch "$target/.complete"
