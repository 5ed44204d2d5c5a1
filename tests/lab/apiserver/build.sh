#!/usr/bin/env bash
# Builds kube-apiserver for the lab (tests/lab/api_server.py), once, and puts beside it the CRDs of the kinds that are
# read, from the same modules that publish them: 110 MB in /opt/trackside-lab/kubernetes. It needs Go 1.24, the Go module
# proxy (1.2 GB) and about nine minutes of processor time, so it is no part of install.sh: make apiserver. Run as root.
set -euo pipefail

target=/opt/trackside-lab/kubernetes # as in tests/lab/api_server.py
here=$(cd "$(dirname "$0")" && pwd)
go=$(command -v go || echo /usr/local/go/bin/go)
version=v1.33.0

fail() {
    echo "tests/lab/apiserver/build.sh: $*" >&2
    exit 1
}

crds=( # module, digest as in go.sum, file
    "sigs.k8s.io/jobset@v0.8.0 h1:80cJcPld+IMdKFOqzEW4et3Y6lGAPcP8YmBZ+aiKGYA= config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"
    "sigs.k8s.io/kueue@v0.10.0 h1:GDQlZbMLCyImRMIdlCO9yyI1JWoX+Ab6x9fodcJBva4= config/components/crd/bases/kueue.x-k8s.io_workloads.yaml"
    "github.com/kubeflow/trainer/v2@v2.0.0 h1:mnQSR9iPKItxyUR8mq66XsmxqKNVHwr9YYOB7BTU9dU= manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml"
    "github.com/kubeflow/training-operator@v1.8.1 h1:mVvoBSCInbMBX0gGSn4+Ihj3ycwoLO1iEAw+0qPhQfc= manifests/base/crds/kubeflow.org_pytorchjobs.yaml"
    "github.com/argoproj/argo-workflows/v3@v3.6.4 h1:5+Cc1UwaQE5ka3w7R3hxZ1TK3M6VjDEXA5WSQ/IXrxY= manifests/base/crds/minimal/argoproj.io_workflows.yaml"
)

[ ! -e "$target/.complete" ] || exit 0
[ -x "$go" ] || fail "there is no Go here; the tests of the API server are skipped without it"
mkdir -p "$target/crds"

of_json() { sed -nE "s/^\t\"$1\": \"(.*)\",?$/\1/p"; }

for entry in "${crds[@]}"; do
    read -r module digest file <<<"$entry"
    # The digest is checked here: a module that is not a dependency has no line in go.sum.
    answer=$(cd "$here" && GOSUMDB=off GOFLAGS=-mod=mod "$go" mod download -json "$module") || fail "no module $module"
    [ "$(of_json Sum <<<"$answer")" = "$digest" ] || fail "$module is not what it was: $(of_json Sum <<<"$answer")"
    cp --no-preserve=mode "$(of_json Dir <<<"$answer")/$file" "$target/crds/"
done

echo "building kube-apiserver $version (some minutes)"
(cd "$here" && CGO_ENABLED=0 nice -n 10 "$go" build -mod=readonly -trimpath -o "$target/kube-apiserver" \
    -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" .) || fail "go build failed; see above"
touch "$target/.complete"
