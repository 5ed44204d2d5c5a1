#!/usr/bin/env bash
# Fetches veraPDF (tests/app/reports/test_verapdf.py), once: one file of 9 MB in /opt/trackside-lab/verapdf, from Maven
# Central. It needs Java 11 and Maven, so it is no part of install.sh: make verapdf. Run as root.
set -euo pipefail

target=/opt/trackside-lab/verapdf # as in tests/app/reports/test_verapdf.py
version=1.28.2
artifact=org.verapdf.apps:greenfield-apps:$version
digest=687d4d8bcfec48c9f7e931cf78ed061f1eeccfba55d4cdc000ba9b4d8aa46ce6

fail() {
    echo "tests/lab/verapdf/build.sh: $*" >&2
    exit 1
}

[ ! -e "$target/.complete" ] || exit 0
command -v java >/dev/null && command -v mvn >/dev/null ||
    fail "there is no Java or no Maven here; the test with veraPDF is skipped without them"
mkdir -p "$target"
mvn -q -B dependency:get -Dartifact="$artifact" -Dtransitive=false || fail "no $artifact"
mvn -q -B dependency:copy -Dartifact="$artifact" -DoutputDirectory="$target" || fail "$artifact cannot be copied"
sha256sum --check --quiet <<<"$digest  $target/greenfield-apps-$version.jar" || fail "$artifact is not what it was"
mv "$target/greenfield-apps-$version.jar" "$target/verapdf.jar"
touch "$target/.complete"
