// What Grafana does with an answer before a panel draws it: transformations, then units, colours and names.
import {
  type DataFrame, type FieldConfigPropertyItem, FieldColorModeId, type FieldConfigSource, type GrafanaTheme2, Registry, ThresholdsMode,
  applyFieldOverrides, cacheFieldDisplayNames, displayNameOverrideProcessor, standardTransformers, standardTransformersRegistry, transformDataFrame,
} from '@grafana/data';
import { lastValueFrom } from 'rxjs';
import type { Panel } from './model';
import { partitionByValues } from './partition';

/** All transformations. Some stand twice among the standard ones. */
const transformers = [...new Map(Object.values(standardTransformers).map((t) => [t.id, t])).values(), partitionByValues];

standardTransformersRegistry.setInit(() => transformers.map((transformation) => ({
  id: transformation.id, name: transformation.name, transformation: async () => transformation, editor: () => null,
  imageDark: '', imageLight: '',
} as any)));

/** registry knows every property that a panel sets, those of all panels and those of one type. */
function registry(source: FieldConfigSource) {
  const standard = ['unit', 'min', 'max', 'decimals', 'displayName', 'noValue', 'mappings', 'thresholds', 'color'];
  const custom = [...Object.keys(source.defaults.custom ?? {}).map((id) => `custom.${id}`), ...source.overrides.flatMap((o) => o.properties.map((p) => p.id))];
  const ids = [...new Set([...standard, ...custom.filter((id) => id.startsWith('custom.'))])];
  return new Registry<FieldConfigPropertyItem>(() => ids.map((id) => ({
    id, path: id.replace(/^custom\./, ''), isCustom: id.startsWith('custom.'), name: id,
    editor: () => null, override: () => null, process: id === 'displayName' ? displayNameOverrideProcessor : (value: unknown) => value, shouldApply: () => true,
    settings: { expandTemplateVars: true },
  } as any)));
}

/** defaults are those that a panel's type has where a file says nothing. */
function defaults(panel: Panel): FieldConfigSource {
  const lines = panel.type === 'timeseries' || panel.type === 'xychart';
  return {
    defaults: {
      color: { mode: lines ? FieldColorModeId.PaletteClassic : FieldColorModeId.Thresholds },
      thresholds: { mode: ThresholdsMode.Absolute, steps: [{ value: -Infinity, color: 'green' }, { value: 80, color: 'red' }] },
      mappings: [],
      ...panel.fieldConfig.defaults,
    },
    overrides: panel.fieldConfig.overrides,
  };
}

/** shown makes frames what the panel draws. */
export async function shown(panel: Panel, frames: DataFrame[], theme: GrafanaTheme2): Promise<DataFrame[]> {
  const interpolate = (text: string) => text;
  const data = await lastValueFrom(transformDataFrame(panel.transformations ?? [], frames, { interpolate }));
  const fieldConfig = defaults(panel);
  const all = applyFieldOverrides({
    data, fieldConfig, theme, timeZone: 'utc', fieldConfigRegistry: registry(fieldConfig) as any,
    replaceVariables: (text, scoped) => text.replace(/\$\{__field\.labels\.(\w+)\}/g, (_, name) => scoped?.__dataContext?.value?.field?.labels?.[name] ?? ''),
  });
  cacheFieldDisplayNames(all); // Tables look no further.
  return all;
}
