// Tables that are told of anew each second: rows are kept and their cells changed, so that focus
// and selection stay where they are. A column is {title, show(row), value?(row), isNumber?}; the
// first one has the button that opens a row's details.

const SHOWN_MAX = 200;

export class Table {
  constructor(main, {id, title, caption, columns}, onDetails) {
    this.columns = columns;
    this.caption = caption;
    this.onDetails = onDetails;
    this.sort = {column: null, isDown: true};
    this.kept = new Map();
    this.section = document.createElement('section');
    this.section.id = id;
    this.section.hidden = true;
    this.section.setAttribute('aria-labelledby', `${id}-title`);
    const heading = document.createElement('h2');
    heading.id = `${id}-title`;
    heading.textContent = title;
    const scroll = document.createElement('div'); // a region, so that keys can move it
    scroll.className = 'scroll';
    scroll.tabIndex = 0;
    scroll.setAttribute('role', 'region');
    scroll.setAttribute('aria-labelledby', heading.id);
    const table = document.createElement('table');
    this.says = table.createCaption();
    this.heads = this.headMake(table);
    this.body = table.createTBody();
    scroll.append(table);
    this.section.append(heading, scroll);
    main.insertBefore(this.section, document.getElementById('events'));
  }

  headMake(table) {
    const row = table.createTHead().insertRow();
    return this.columns.map(column => {
      const head = document.createElement('th');
      head.scope = 'col';
      head.className = column.isNumber ? 'number' : '';
      if (column.draw) {
        head.textContent = column.title;
      } else {
        const button = document.createElement('button');
        button.type = 'button';
        button.textContent = column.title;
        button.addEventListener('click', () => this.sortBy(column));
        head.append(button);
      }
      row.append(head);
      return head;
    });
  }

  sortBy(column) {
    const isSame = this.sort.column === column;
    this.sort = {column, isDown: isSame ? !this.sort.isDown : Boolean(column.isNumber)};
    this.heads.forEach((head, i) => {
      if (this.columns[i] === column) {
        head.setAttribute('aria-sort', this.sort.isDown ? 'descending' : 'ascending');
      } else {
        head.removeAttribute('aria-sort');
      }
    });
    this.put(this.rows ?? [], this.filter ?? '');
  }

  sorted(rows) {
    const {column, isDown} = this.sort;
    if (!column) return rows;
    const value = column.value ?? column.show;
    const order = (a, b) => a < b ? -1 : a > b ? 1 : 0;
    return [...rows].sort((a, b) => (isDown ? -1 : 1) * order(value(a), value(b)));
  }

  // Each row has a `key` of its own.
  put(rows, filter) {
    this.rows = rows;
    this.filter = filter;
    this.section.hidden = rows.length === 0;
    const wanted = this.sorted(rows.filter(row => filter === '' || this.columns.some(
      column => !column.draw && column.show(row).toLowerCase().includes(filter))));
    const shown = wanted.slice(0, SHOWN_MAX);
    this.says.textContent = `${this.caption} ${shown.length} of ${rows.length}.`;
    const keys = new Set(shown.map(row => row.key));
    for (const [key, line] of this.kept) {
      if (!keys.has(key)) { line.remove(); this.kept.delete(key); }
    }
    shown.forEach((row, at) => this.rowPut(row, at));
  }

  rowPut(row, at) {
    let line = this.kept.get(row.key);
    if (!line) {
      line = this.rowMake(row.key);
      this.kept.set(row.key, line);
    }
    line.row = row;
    if (this.body.rows[at] !== line) this.body.insertBefore(line, this.body.rows[at] ?? null);
    this.columns.forEach((column, i) => {
      if (column.draw) {
        line.cells[i].replaceChildren(column.draw(row));
        return;
      }
      const words = column.show(row);
      const cell = i === 0 ? line.cells[0].firstChild : line.cells[i];
      if (cell.textContent !== words) cell.textContent = words;
      if (column.isBad) line.cells[i].classList.toggle('bad', column.isBad(row));
    });
  }

  rowMake() {
    const line = document.createElement('tr');
    this.columns.forEach((column, i) => {
      const cell = document.createElement(i === 0 ? 'th' : 'td');
      cell.className = column.isNumber ? 'number' : '';
      if (i === 0) {
        cell.scope = 'row';
        const button = document.createElement('button');
        button.type = 'button';
        button.setAttribute('aria-haspopup', 'dialog');
        button.addEventListener('click', () => this.onDetails(line.row));
        cell.append(button);
      }
      line.append(cell);
    });
    return line;
  }
}

// Everything known of a thing: an object of objects, as lists of names and values.
const DEPTH_MAX = 6, ITEMS_MAX = 400;

export function describe(parent, object, depth = 0) {
  const list = document.createElement('dl');
  const below = [];
  for (const [name, value] of Object.entries(object).slice(0, ITEMS_MAX)) {
    if (value !== null && typeof value === 'object') {
      below.push([name, value]);
      continue;
    }
    const term = document.createElement('dt');
    const said = document.createElement('dd');
    term.textContent = name.replaceAll('_', ' ');
    said.textContent = value === null ? '–' : String(value);
    list.append(term, said);
  }
  if (list.childElementCount > 0) parent.append(list);
  for (const [name, value] of below) {
    if (depth >= DEPTH_MAX || name === 'buckets' || Object.keys(value).length === 0) continue;
    const heading = document.createElement('h3');
    heading.textContent = name.replaceAll('_', ' ');
    parent.append(heading);
    describe(parent, value, depth + 1);
  }
}
