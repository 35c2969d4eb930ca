// A page that is a dashboard, as Grafana lays it out: window.show draws one and says when it is done.
import { type DataFrame, ThemeContext, createTheme, dateTime } from '@grafana/data';
import { GlobalStyles, PanelChrome, PortalContainer } from '@grafana/ui';
import { createRoot } from 'react-dom/client';
import type { Board, Panel, Setting } from './model';
import { PanelContent } from './panels';
import { type Mark, answers, marks } from './question';
import { shown } from './shown';

/** A cell of Grafana's grid: its height, the space between panels, and around all. */
const cell = 30, space = 8, columns = 24, margin = 12;

/** Size is that of a panel in pixels. */
function size({ gridPos: { w, h } }: Panel, width: number) {
  return { width: (width / columns) * w - space, height: h * (cell + space) - space };
}

const theme = createTheme({ colors: { mode: 'dark' } });

interface Content { board: Board; setting: Setting; width: number; frames: DataFrame[][]; marks: Mark[] }

function Variables({ board, setting }: Content) {
  return <div className="variables">{board.templating.list.map(({ name, label }) => <span key={name}>
    <label>{label}</label><b>{setting.variables[name]?.join(' + ') || 'All'}</b></span>)}</div>;
}

function Dashboard(content: Content) {
  const { board, setting, width, frames, marks } = content;
  const range = { from: dateTime(setting.from), to: dateTime(setting.to), raw: { from: dateTime(setting.from), to: dateTime(setting.to) } };
  const bottom = Math.max(...board.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  return <div className="dashboard" style={{ width: width + 2 * margin }}>
    <h1>{board.title}</h1>
    <Variables {...content} />
    <div className="grid" style={{ height: bottom * (cell + space) }}>
      {board.panels.map((panel, i) => <div key={panel.id} style={{ position: 'absolute', left: (panel.gridPos.x * width) / columns, top: panel.gridPos.y * (cell + space) }}>
        <PanelChrome title={panel.title} description={panel.description} {...size(panel, width)}>
          {(w: number, h: number) => <PanelContent panel={panel} frames={frames[i]} marks={marks} range={range} theme={theme} width={w} height={h} />}
        </PanelChrome>
      </div>)}
    </div>
  </div>;
}

/** show draws a dashboard and returns its panels that have nothing to show. */
async function show(board: Board, setting: Setting, width: number): Promise<string[]> {
  const range = { from: dateTime(setting.from), to: dateTime(setting.to), raw: { from: '', to: '' } };
  const frames = await Promise.all(board.panels.map(async (panel) => shown(panel, await answers(setting, panel, range, size(panel, width).width), theme)));
  const content = { board, setting, width, frames, marks: await marks(setting, board) };
  createRoot(document.getElementById('root')!).render(<ThemeContext.Provider value={theme}>
    <GlobalStyles />
    <Dashboard {...content} />
    <PortalContainer />
  </ThemeContext.Provider>);
  return board.panels.filter((_, i) => frames[i].every((frame) => frame.length === 0)).map((panel) => panel.title);
}

Object.assign(window, { show });
