// Lines over the last minute, and bars of a histogram, as SVG.

const SVG = 'http://www.w3.org/2000/svg';
const LENGTH = 60; // looks

function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// The least of 1, 2, 5, 10 …, or of 1, 2, 4, 8 …, that holds all values.
function ceilingOf(values, isBinary) {
  const most = Math.max(1, ...values);
  if (isBinary) return 2 ** Math.ceil(Math.log2(most));
  const power = 10 ** Math.floor(Math.log10(most));
  return power * [1, 2, 5, 10].find(step => step * power >= most);
}

// A gap where nothing is known; a point between two gaps is seen by its round cap.
function path(values, ceiling) {
  let pen = 'M';
  let d = '';
  values.forEach((value, i) => {
    if (value === null) { pen = 'M'; return; }
    const x = i + LENGTH - values.length;
    d += `${pen}${x} ${(100 - 96 * value / ceiling).toFixed(1)} `;
    pen = 'L';
  });
  return d;
}

// A figure of one or two series: {title, format, isBinary, series: ['in', 'out']}.
export class Graph {
  constructor(list, {title, format, isBinary, series}) {
    this.format = format;
    this.isBinary = isBinary;
    this.values = series.map(() => []);
    this.series = series;
    const figure = document.createElement('figure');
    const caption = document.createElement('figcaption');
    caption.textContent = title;
    this.title = title;
    this.svg = element('svg', {viewBox: `0 0 ${LENGTH - 1} 100`, preserveAspectRatio: 'none',
                               role: 'img'});
    for (const y of [4, 52, 100]) {
      this.svg.append(element('line', {class: 'axis', x1: 0, x2: LENGTH - 1, y1: y, y2: y}));
    }
    this.lines = series.map((_, i) => element('path', {class: `line ${i ? 'second' : 'first'}`}));
    this.svg.append(...this.lines);
    this.words = series.map((name, i) => {
      const line = document.createElement('p');
      const key = document.createElement('span');
      key.className = `key ${i ? 'second' : 'first'}`;
      const said = document.createElement('span');
      line.append(key, said);
      return {line, said};
    });
    this.scale = document.createElement('p');
    figure.append(caption, this.svg, ...this.words.map(it => it.line), this.scale);
    list.append(figure);
  }

  add(now) {
    now.forEach((value, i) => {
      this.values[i].push(value);
      if (this.values[i].length > LENGTH) this.values[i].shift();
    });
    const known = this.values.flat().filter(value => value !== null);
    const ceiling = ceilingOf(known, this.isBinary);
    this.lines.forEach((line, i) => line.setAttribute('d', path(this.values[i], ceiling)));
    const said = this.series.map((name, i) => {
      const value = now[i];
      const words = `${name} ${value === null ? '–' : this.format(value)}`;
      this.words[i].said.textContent = words;
      return words;
    });
    this.scale.textContent = `top line: ${this.format(ceiling)}`;
    this.svg.setAttribute('aria-label', `${this.title}: now ${said.join(', ')}`);
  }
}

// [[log2 of nanoseconds, count]] as bars; what they say in words is beside them, in the table.
export function bars(columns) {
  const width = Math.max(columns.length, 12);
  const svg = element('svg', {viewBox: `0 0 ${width * 4} 20`, preserveAspectRatio: 'none',
                              'aria-hidden': 'true'});
  const most = Math.max(1, ...columns.map(([, count]) => count));
  columns.forEach(([, count], i) => {
    const height = count > 0 ? Math.max(1, 20 * count / most) : 0;
    svg.append(element('rect', {class: 'bar', x: i * 4, y: 20 - height, width: 3, height}));
  });
  return svg;
}
