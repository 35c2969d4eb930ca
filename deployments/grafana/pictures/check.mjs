// Checks the dashboards' files against Grafana's own types: node check.mjs DASHBOARDS. Each field must be one that Grafana knows, with a value
// that it takes; a panel's options and the fields of its type are checked against its plugin's types. Where the types say "unknown", as of
// transformations' options, nothing is checked.
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

/** The types of a panel's options and of its own fields, by its type. */
const plugins = { timeseries: 'TimeSeries', xychart: 'XYChart', stat: 'Stat', table: 'Table' };

const head = `import type { Dashboard, Panel } from '@grafana/schema';
${Object.entries(plugins).map(([type, name]) => `import type * as ${type} from '@grafana/schema/dist/esm/raw/composable/${type}/panelcfg/x/${name}PanelCfg_types.gen';`).join('\n')}

// Names of enumerations are values in a file.
type Plain<T> = T extends string ? \`\${T}\` : T extends number | boolean | null | undefined ? T : T extends (infer U)[] ? Plain<U>[]
  : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;

// Queries of the InfluxDB and Prometheus data sources, of which there are no published types: what their sources have.
type Target = Influx | Prometheus;
type Prometheus = {
  refId: string; datasource: { type: 'prometheus'; uid: string }; expr: string; legendFormat?: string; instant: boolean; range: boolean;
  format: 'time_series' | 'table' | 'heatmap';
};
type Influx = { refId: string; datasource: { type: 'influxdb'; uid: string }; rawQuery: true; query: string; resultFormat: 'time_series' | 'table'; alias?: string };
type Marks = {
  refId: string; fromAnnotations: true; queryType: 'tags'; query: string; rawQuery: true; name: string; textColumn: string; tagsColumn: string; titleColumn: string;
  timeEndColumn: string;
};
`;

/** body is a dashboard as expressions that have to satisfy its types. */
function body(board) {
  const panels = board.panels.flatMap(({ type, options, targets, fieldConfig: { defaults: { custom, ...defaults }, overrides }, ...panel }) => {
    if (!plugins[type]) throw new Error(`${panel.title}: the type ${type} is not checked`);
    const own = overrides.flatMap((o) => o.properties).filter(({ id }) => id.startsWith('custom.')).map(({ id, value }) => ({ [id.slice(7)]: value }));
    const typed = (type === 'stat' ? [] : [custom ?? {}, ...own]).map((fields) => `(${JSON.stringify(fields)}) satisfies Partial<Plain<${type}.FieldConfig>>;`);
    const shared = overrides.flatMap((o) => o.properties).filter(({ id }) => !id.startsWith('custom.')).map(({ id, value }) => ({ [id]: value }));
    return [
      `(${JSON.stringify({ type, ...panel, fieldConfig: { defaults, overrides } })}) satisfies Plain<Panel>;`,
      `(${JSON.stringify(options)}) satisfies Partial<Plain<${type}.Options>>;`,
      ...targets.map((target) => `(${JSON.stringify(target)}) satisfies Target;`),
      ...shared.map((fields) => `(${JSON.stringify(fields)}) satisfies Plain<NonNullable<Panel['fieldConfig']>['defaults']>;`),
      ...typed,
    ];
  });
  const annotations = board.annotations.list.map(({ target, ...annotation }) => annotation);
  return [
    `(${JSON.stringify({ ...board, annotations: { list: annotations }, panels: [] })}) satisfies Plain<Dashboard>;`,
    ...board.annotations.list.map(({ target }) => `(${JSON.stringify(target)}) satisfies Marks;`),
    ...panels,
  ].join('\n');
}

const [dashboards] = process.argv.slice(2);
const out = fileURLToPath(new URL('dist/check/', import.meta.url));
mkdirSync(out, { recursive: true });
const files = readdirSync(dashboards).map((name) => {
  const file = join(out, name.replace(/\.json$/, '.ts'));
  writeFileSync(file, `${head}\n${body(JSON.parse(readFileSync(join(dashboards, name), 'utf8')))}\n`);
  return file;
});
const program = ts.createProgram(files, { strict: true, noEmit: true, skipLibCheck: true, module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler, types: [] });
const faults = ts.getPreEmitDiagnostics(program);
for (const fault of faults) {
  const line = fault.file?.getLineAndCharacterOfPosition(fault.start ?? 0);
  console.error(`${fault.file?.fileName.replace(out, '')}:${line?.line}: ${ts.flattenDiagnosticMessageText(fault.messageText, '\n')}\n  ${fault.file?.text.slice(fault.start, fault.start + 120)}`);
}
if (faults.length > 0) process.exitCode = 1;
else console.log(`${files.length} dashboards are as Grafana's types want them.`);
