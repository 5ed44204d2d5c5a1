#!/usr/bin/env bash
# Renews the files beside it from Grafana's own packages (npm and node are needed; nothing is left behind):
#   dashboards/schema/regenerate.sh
# dashboard.json   strict draft-07 schema of a dashboard
# panels.json      the same of `options` and `fieldConfig.defaults.custom`, by panel plugin
# ids.json         versions, and the ids of units and transformations that Grafana knows
# A new Grafana release: change the versions, run it, and let the tests say what drifted.
set -euo pipefail

schema_version=13.2.3
data_version=13.1.1
generator_version=2.4.0
panels=(stat timeseries bargauge gauge table heatmap statushistory)

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

echo '{"private": true}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts \
    "@grafana/schema@$schema_version" "ts-json-schema-generator@$generator_version" \
    "@grafana/data@$data_version" react@18 react-dom@18 jsdom rxjs
echo '{"compilerOptions": {"target": "es2022", "module": "esnext", "moduleResolution": "bundler"}}' >tsconfig.json

types=node_modules/@grafana/schema/dist/types/raw
generate() { # TYPES TYPE OUTPUT
    npx --no-install ts-json-schema-generator --path "$1" --type "$2" --no-type-check --no-top-ref -f tsconfig.json -o "$3"
}

generate "$types/dashboard/x/types.gen.d.ts" Dashboard dashboard.json
for panel in "${panels[@]}"; do
    file=$types/composable/$panel/panelcfg/x/types.gen.d.ts
    generate "$file" Options "$panel.options.json"
    # A plugin without settings of its own for a field accepts none.
    if grep -qE '^export (interface|type) FieldConfig' "$file"; then
        generate "$file" FieldConfig "$panel.custom.json"
    else
        echo '{"additionalProperties": false, "type": "object"}' >"$panel.custom.json"
    fi
done

cat >fold.cjs <<'NODE'
const fs = require('fs');
const { JSDOM } = require('jsdom');
const dom = new JSDOM('<!doctype html>', { url: 'http://localhost' });
Object.assign(global, { window: dom.window, document: dom.window.document });
for (const name of ['HTMLElement', 'Element', 'Node']) global[name] = dom.window[name];
Object.defineProperty(global, 'navigator', { value: dom.window.navigator, configurable: true });
dom.window.matchMedia = () => ({ matches: false, addListener() {}, removeListener() {} });
const data = require('@grafana/data');

const [, , out, schema, version, ...panels] = process.argv;
const plugin = { statushistory: 'status-history' };
const read = (name) => JSON.parse(fs.readFileSync(name, 'utf8'));
// Prose goes: a property called description is an object, a description is a text.
const bare = (value) =>
  Array.isArray(value) ? value.map(bare)
  : value && typeof value === 'object'
    ? Object.fromEntries(Object.keys(value).sort()
        .filter((key) => !(['description', 'deprecated', '$schema'].includes(key) && typeof value[key] === 'string'))
        .map((key) => [key, bare(value[key])]))
    : value;
// One line per entry, two levels deep, so that a new release shows as a readable difference.
const lines = (value, depth) =>
  depth && value && typeof value === 'object' && !Array.isArray(value)
    ? '{\n' + Object.keys(value).map((key) => JSON.stringify(key) + ': ' + lines(value[key], depth - 1)).join(',\n') + '\n}'
    : JSON.stringify(value);
const write = (name, value, depth) => fs.writeFileSync(`${out}/${name}`, lines(value, depth) + '\n');

write('dashboard.json', bare(read('dashboard.json')), 2);
write('panels.json', Object.fromEntries(panels.map((name) => [
  plugin[name] ?? name, { options: bare(read(`${name}.options.json`)), custom: bare(read(`${name}.custom.json`)) }])), 2);
write('ids.json', {
  versions: { '@grafana/schema': schema, '@grafana/data': version },
  units: [...new Set(data.getValueFormats().flatMap((group) => group.submenu.map((each) => each.value)))].sort(),
  transformations: [...new Set(Object.values(data.DataTransformerID))].sort(),
}, 1);
NODE
node fold.cjs "$here" "$schema_version" "$data_version" "${panels[@]}"
