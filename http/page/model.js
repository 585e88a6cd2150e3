// What was answered, as rows of tables: rates are made of this answer and the one before.
import {counts, number, objects, since, sum, text, isObject} from './numbers.js';

// The members of an answer that are devices.
const devicesOf = answer => Object.keys(answer).filter(
  name => isObject(answer[name]) && typeof answer[name].qps === 'number');

// What a queue pair of any transport has counted, or several: a stream counts octets by operation,
// packets all in one.
function totalsOf(counters) {
  const totals = {work: number(counters, 'send_completions') + number(counters, 'recv_completions'),
                  octets_in: 0, octets_out: 0,
                  errors: number(counters, 'send_errors') + number(counters, 'recv_errors')};
  for (const name of Object.keys(isObject(counters) ? counters : {})) {
    if (/^in\..*\.octets$|^octets_in$/.test(name)) totals.octets_in += number(counters, name);
    if (/^out\..*\.octets$|^octets_out$/.test(name)) totals.octets_out += number(counters, name);
  }
  return totals;
}

function add(total, more) {
  for (const name of Object.keys(more)) total[name] = (total[name] ?? 0) + more[name];
  return total;
}

const none = () => ({work: 0, octets_in: 0, octets_out: 0, errors: 0});

function latenciesOf(object, of, key, rows) {
  for (const [operation, histogram] of Object.entries(isObject(object) ? object : {})) {
    if (isObject(histogram)) {
      rows.push({key: `${key} ${operation}`, of, operation, histogram,
                 counts: counts([histogram])});
    }
  }
}

function program(found, process) {
  const totals = none();
  for (const answer of process.answers.filter(isObject)) {
    for (const name of devicesOf(answer)) {
      const device = answer[name];
      const of_device = none();
      for (const [part, value] of Object.entries(device)) {
        if (part.endsWith('_total') && isObject(value)) add(of_device, totalsOf(value));
      }
      for (const qp of objects(answer, 'qps')) {
        const own = totalsOf(qp.counters);
        add(of_device, own);
        const connection = objects(answer, 'connections').find(
          it => 'qp_num' in it && it.qp_num === qp.qp_num);
        found.connections.push({
          key: `${process.pid} ${name} ${number(qp, 'qp_num')}`, pid: process.pid, device: name,
          number: number(qp, 'qp_num'), state: text(qp, 'state'), totals: own,
          peer: text(connection ?? qp, 'peer') || text(qp, 'peer') || '–',
          refused: text(qp, 'refused') || text(qp, 'refused_by_peer'),
          title: `${process.name} ${process.pid}, ${name}, queue pair ${number(qp, 'qp_num')}`,
          details: {'queue pair': qp, connection: connection ?? {}}});
      }
      found.devices.push({key: `${process.pid} ${name}`, pid: process.pid, name,
                          program: process.name, totals: of_device, device,
                          title: `${process.name} ${process.pid}, ${name}`, details: device});
      latenciesOf(device.latency, `${process.name} ${process.pid} ${name}`,
                  `${process.pid} ${name}`, found.latencies);
      add(totals, of_device);
    }
  }
  return totals;
}

function node(found, process) {
  const totals = none();
  const answer = process.answers.filter(isObject)[0] ?? {};
  for (const volume of objects(answer, 'volumes')) {
    const ended = sum(volume.completions);
    const own = {work: sum(volume.operations), octets_in: number(volume.octets, 'write'),
                 octets_out: number(volume.octets, 'read'),
                 errors: Math.max(0, ended - number(volume.completions, 'ok'))};
    const key = `${process.pid} ${text(volume, 'name')}`;
    add(totals, own);
    found.volumes.push({key, name: text(volume, 'name'), state: text(volume, 'state'), totals: own,
                        volume, title: `volume ${text(volume, 'name')}`, details: volume});
    latenciesOf(volume.latency, `volume ${text(volume, 'name')}`, key, found.latencies);
  }
  for (const rta of objects(answer, 'rtas')) {
    found.rtas.push({key: `${process.pid} ${text(rta, 'name')}`, name: text(rta, 'name'),
                     state: text(rta, 'state'), rta,
                     totals: {...none(), work: number(rta, 'results')},
                     title: `RTA ${text(rta, 'name')}`, details: rta});
  }
  for (const client of objects(answer, 'clients')) {
    found.clients.push({key: `${process.pid} ${number(client, 'connection')}`, client,
                        totals: {work: number(client, 'requests'), errors: number(client, 'failed'),
                                 octets_in: number(client, 'octets_in'),
                                 octets_out: number(client, 'octets_out')},
                        title: `client ${text(client, 'address')}`, details: client});
  }
  for (const event of objects(answer, 'events')) {
    found.events.push({time: text(event, 'time'), text: text(event, 'text')});
  }
  return totals;
}

const KINDS = ['processes', 'devices', 'connections', 'volumes', 'rtas', 'clients'];

// Of each row {work, octets_in …} per second; null where the one before is unknown or began anew.
function ratesPut(found, before) {
  const seconds = before ? (found.time_ms - before.time_ms) / 1000 : 0;
  for (const kind of KINDS) {
    const known = new Map(before ? before[kind].map(row => [row.key, row]) : []);
    for (const row of found[kind]) {
      const last = known.get(row.key);
      row.rates = {};
      for (const name of ['work', 'octets_in', 'octets_out', 'errors']) {
        const more = last ? row.totals[name] - last.totals[name] : -1;
        row.rates[name] = seconds > 0 && more >= 0 ? more / seconds : null;
      }
    }
  }
}

// What came since the answer before, of all operations of all.
function latestOf(found, before) {
  const known = new Map(before ? before.latencies.map(row => [row.key, row.counts]) : []);
  const latest = new Map();
  for (const row of found.latencies) {
    for (const [bucket, count] of since(known.get(row.key) ?? row.counts, row.counts)) {
      latest.set(bucket, (latest.get(bucket) ?? 0) + count);
    }
  }
  return latest;
}

export function modelOf(status, before) {
  const found = {time_ms: number(status, 'time_ms'), left_out: number(status, 'left_out'),
                 processes: [], devices: [], connections: [], volumes: [], rtas: [], clients: [],
                 latencies: [], events: []};
  const in_order = objects(status, 'processes').sort((a, b) => number(a, 'pid') - number(b, 'pid'));
  for (const told of in_order) {
    const process = {pid: number(told, 'pid'), kind: text(told, 'kind'),
                     name: text(told, 'name') || 'unknown', state: text(told, 'state'),
                     answers: Array.isArray(told.answers) ? told.answers : []};
    const peers_before = found.connections.length + found.clients.length;
    const totals = process.kind === 'node' ? node(found, process) : program(found, process);
    found.processes.push({key: `${process.kind} ${process.pid}`, process, totals,
                          peers: found.connections.length + found.clients.length - peers_before,
                          title: `${process.name} ${process.pid}`,
                          details: {pid: process.pid, state: process.state,
                                    answers: process.answers}});
  }
  ratesPut(found, before);
  found.latest = latestOf(found, before);
  return found;
}

// What is another than it was: for a page that has been open meanwhile.
export function changes(before, now) {
  const said = [];
  const compare = (kind, name, state) => {
    const known = new Map(before[kind].map(row => [row.key, row]));
    for (const row of now[kind]) {
      const last = known.get(row.key);
      known.delete(row.key);
      if (!last) said.push(`${name(row)}: new`);
      else if (state(last) !== state(row)) said.push(`${name(row)}: ${state(row) || 'no state'}`);
    }
    for (const row of known.values()) said.push(`${name(row)}: gone`);
  };
  compare('processes', row => row.title, row => row.process.state);
  compare('connections', row => row.title,
          row => row.state + (row.refused ? `, ${row.refused}` : ''));
  compare('volumes', row => row.title, row => row.state);
  compare('rtas', row => row.title, row => row.state);
  return said;
}
