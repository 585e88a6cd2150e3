// Asks once in a second, and shows what was answered; nothing is asked while nobody looks.
import {bars, Graph} from './chart.js';
import {changes, modelOf} from './model.js';
import {duration, many, number, octets, percentile, perSecond, powers, text} from './numbers.js';
import {describe, Table} from './tables.js';

const by = id => document.getElementById(id);
const INTERVAL_MS = matchMedia('(prefers-reduced-motion: reduce)').matches ? 5000 : 1000;
const ANSWER_MS = 10000;
const RETRY_MAX_MS = 8000;
const EVENTS_MAX = 100;

// --- what there is to see ---

const rate = (title, name, format) => ({
  title, isNumber: true, value: row => row.rates[name] ?? -1,
  show: row => perSecond(format, row.rates[name])});
const traffic = [rate('in', 'octets_in', octets), rate('out', 'octets_out', octets)];
const requests = rate('requests', 'work', many);
const plain = (title, show) => ({title, show});
const count = (title, value) => ({title, isNumber: true, value, show: row => many(value(row))});
const WELL = /^(ok|ready|RTS|RTR|INIT|RESET|)$/;
const stateOf = row => row.state ?? row.process.state;
const state = {title: 'state', show: stateOf, isBad: row => !WELL.test(stateOf(row))};
const ns = (title, name) => ({title, isNumber: true, value: row => number(row.histogram, name),
                              show: row => duration(number(row.histogram, name))});

const TABLES = [
  {id: 'processes', title: 'Processes', caption: 'Programs with a device, and storage nodes:',
   columns: [plain('program', row => row.process.name),
             {title: 'pid', isNumber: true, value: row => row.process.pid,
              show: row => String(row.process.pid)},
             state, count('peers', row => row.peers), rate('work', 'work', many), ...traffic]},
  {id: 'volumes', title: 'Volumes', caption: 'What clients use:',
   columns: [plain('volume', row => row.name), state,
             plain('driver', row => text(row.volume, 'driver')),
             {title: 'size', isNumber: true, value: row => number(row.volume, 'size'),
              show: row => octets(number(row.volume, 'size'))},
             count('clients', row => number(row.volume, 'connections')), requests, ...traffic,
             count('errors', row => row.totals.errors)]},
  {id: 'rtas', title: 'Agents', caption: 'Processes that drive volumes (RTAs):',
   columns: [plain('agent', row => row.name), state,
             {title: 'pid', isNumber: true, value: row => number(row.rta, 'pid'),
              show: row => String(number(row.rta, 'pid'))},
             requests, count('in flight', row => number(row.rta, 'in_flight')),
             count('restarts', row => number(row.rta, 'restarts')),
             plain('why', row => text(row.rta, 'why'))]},
  {id: 'clients', title: 'Clients', caption: 'Connections to volumes:',
   columns: [plain('address', row => text(row.client, 'address')),
             plain('volume', row => text(row.client, 'volume')), requests, ...traffic,
             count('in flight', row => number(row.client, 'in_flight')),
             plain('identity', row => text(row.client, 'identity'))]},
  {id: 'devices', title: 'Devices', caption: 'RDMA devices, one per process and wire:',
   columns: [plain('device', row => row.name), plain('program', row => row.program),
             {title: 'pid', isNumber: true, value: row => row.pid, show: row => String(row.pid)},
             count('queue pairs', row => number(row.device, 'qps')),
             count('regions', row => number(row.device, 'regions')),
             rate('work', 'work', many), ...traffic,
             count('errors', row => row.totals.errors)]},
  {id: 'connections', title: 'Connections', caption: 'Queue pairs and whom they speak to:',
   columns: [{title: 'queue pair', value: row => row.number,
              show: row => `${row.device} ${row.number}`},
             {title: 'pid', isNumber: true, value: row => row.pid, show: row => String(row.pid)},
             state, plain('peer', row => row.peer), rate('work', 'work', many), ...traffic,
             plain('refused', row => row.refused)]},
  {id: 'latencies', title: 'Latencies', caption: 'Since each began, by operation:',
   columns: [plain('of', row => row.of), plain('operation', row => row.operation),
             count('count', row => number(row.histogram, 'count')),
             ns('p50', 'p50_ns'), ns('p90', 'p90_ns'), ns('p99', 'p99_ns'), ns('p99.9', 'p999_ns'),
             ns('max', 'max_ns'),
             {title: 'powers of two', draw: row => bars(powers(row.counts))}]},
];

const GRAPHS = [
  {title: 'Octets', format: value => perSecond(octets, value), isBinary: true,
   series: ['in', 'out']},
  {title: 'Requests and work requests', format: value => perSecond(many, value),
   series: ['done', 'failed']},
  {title: 'Latency of what ended', format: duration, series: ['half within', '99 of 100 within']},
];

// --- details ---

let detailed = null; // the row of which the dialog tells

function detailsPut(row) {
  const body = document.createDocumentFragment();
  const {histogram} = row;
  describe(body, histogram ? {...histogram, buckets: undefined} : row.details);
  by('details-title').textContent = row.title ?? `${row.of}, ${row.operation}`;
  by('details-body').replaceChildren(body);
}

function detailsOpen(row) {
  detailed = row;
  detailsPut(row);
  by('details').showModal();
}

by('details').addEventListener('close', () => { detailed = null; });

// --- showing ---

const tables = TABLES.map(table => [table.id, new Table(by('main'), table, detailsOpen)]);
const graphs = GRAPHS.map(graph => new Graph(by('graph-list'), graph));
const seen = []; // events that this page has seen itself
let model = null;

function eventsPut(found) {
  const all = [...found.events, ...seen].sort(
    (a, b) => a.time < b.time ? 1 : a.time > b.time ? -1 : 0);
  const shown = all.slice(0, EVENTS_MAX);
  const said = JSON.stringify(shown);
  by('events').hidden = shown.length === 0;
  if (by('event-list').dataset.said === said) return;
  by('event-list').dataset.said = said;
  by('event-list').replaceChildren(...shown.map(event => {
    const item = document.createElement('li');
    const time = document.createElement('time');
    time.dateTime = time.textContent = event.time;
    item.append(time, event.text);
    return item;
  }));
}

const total = (rows, name) => rows.every(row => row.rates[name] === null)
  ? null : rows.reduce((so_far, row) => so_far + (row.rates[name] ?? 0), 0);

function graphsPut(found) {
  by('graphs').hidden = false;
  const rows = found.processes;
  graphs[0].add([total(rows, 'octets_in'), total(rows, 'octets_out')]);
  graphs[1].add([total(rows, 'work'), total(rows, 'errors')]);
  graphs[2].add([percentile(found.latest, 500), percentile(found.latest, 990)]);
}

function contentsPut() {
  const sections = document.querySelectorAll('main section:not([hidden])');
  const shown = [...sections].map(section => section.id);
  if (by('contents').dataset.shown === shown.join()) return;
  by('contents').dataset.shown = shown.join();
  by('contents').replaceChildren(...shown.map(id => {
    const item = document.createElement('li');
    const link = document.createElement('a');
    link.href = `#${id}`;
    link.textContent = by(`${id}-title`).textContent;
    item.append(link);
    return item;
  }));
}

function tablesPut() {
  const filter = by('filter').value.trim().toLowerCase();
  for (const [id, table] of tables) table.put(model[id], filter);
  contentsPut();
}

// Said aloud by a screen reader, so only what matters, and only when it is another.
function say(words, isBad = false) {
  const place = by('state');
  if (place.textContent !== words) place.textContent = words;
  place.classList.toggle('bad', isBad);
}

function show(status) {
  const found = modelOf(status, model);
  const now = new Date().toISOString().slice(0, 19) + 'Z';
  if (model) seen.unshift(...changes(model, found).map(words => ({time: now, text: words})));
  seen.length = Math.min(seen.length, EVENTS_MAX);
  model = found;
  by('command').textContent = text(status, 'command');
  document.title = `weft ${text(status, 'command')}`;
  graphsPut(found);
  tablesPut();
  eventsPut(found);
  const row = found[detailed?.histogram ? 'latencies' : 'processes'].concat(
    found.volumes, found.rtas, found.clients, found.devices, found.connections).find(
    it => it.key === detailed?.key && it.title === detailed?.title);
  if (row) detailsPut(row);
  const count = found.processes.length;
  say(count === 0 ? 'Nothing runs now.' : `${count} process${count > 1 ? 'es' : ''}` +
    (found.left_out > 0 ? `; ${found.left_out} more are not shown` : ''));
}

// --- asking ---

let timer = 0;
let wait_ms = INTERVAL_MS;
let is_asking = false;
const isPaused = () => by('pause').getAttribute('aria-pressed') === 'true' || document.hidden;

async function ask() {
  if (is_asking || isPaused()) return;
  is_asking = true;
  try {
    const answer = await fetch('status.json', {cache: 'no-store',
                                               signal: AbortSignal.timeout(ANSWER_MS)});
    if (!answer.ok) throw new Error(`it answers ${answer.status}`);
    show(await answer.json());
    wait_ms = INTERVAL_MS;
  } catch (error) {
    say('No answer: what is shown is old. Trying again.', true);
    console.warn(error);
    wait_ms = Math.min(2 * wait_ms, RETRY_MAX_MS);
  }
  is_asking = false;
  clearTimeout(timer);
  timer = setTimeout(ask, wait_ms);
}

by('pause').addEventListener('click', () => {
  const is_paused = by('pause').getAttribute('aria-pressed') !== 'true';
  by('pause').setAttribute('aria-pressed', String(is_paused));
  if (is_paused) say('Paused.');
  else ask();
});
by('filter').addEventListener('input', () => { if (model) tablesPut(); });
document.addEventListener('visibilitychange', ask);
ask();
