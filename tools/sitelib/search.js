// Finds sections that have all words of a query. Rows of SECTIONS (search-index.js) are
// [page, its title, anchor, the section's title, its text].
'use strict';

const SHOWN_MAX = 30;

// A word in a title weighs more than one in the text; a section without one of them is out.
function score(row, words) {
    const heading = (row[1] + ' ' + row[3]).toLowerCase();
    const text = row[4].toLowerCase();
    let sum = 0;
    for (const word of words) {
        const found = (heading.includes(word) ? 10 : 0) + (text.includes(word) ? 1 : 0);
        if (found === 0) {
            return 0;
        }
        sum += found;
    }
    return sum;
}

function search(sections, query) {
    const words = query.toLowerCase().split(/\s+/).filter((word) => word !== '');
    if (words.length === 0) {
        return [];
    }
    return sections.map((row) => [score(row, words), row])
        .filter(([points]) => points > 0)
        .sort((a, b) => b[0] - a[0])
        .slice(0, SHOWN_MAX)
        .map(([, row]) => row);
}

function link(row) {
    const a = document.createElement('a');
    a.href = row[0] + (row[2] === '' ? '' : '#' + row[2]);
    a.textContent = row[1] === row[3] ? row[1] : row[1] + ': ' + row[3];
    const item = document.createElement('li');
    item.append(a);
    return item;
}

function show(query) {
    const found = document.getElementById('found');
    const rows = search(SECTIONS, query);
    document.getElementById('pages').hidden = query.trim() !== '';
    const list = document.createElement('ul');
    list.append(...rows.map(link));
    found.replaceChildren(...(rows.length > 0 ? [list] : query.trim() ? ['nothing found'] : []));
}

if (typeof document !== 'undefined') {
    const query = document.getElementById('query');
    query.addEventListener('input', () => show(query.value));
    document.addEventListener('keydown', (event) => {
        if (event.key === '/' && document.activeElement !== query) {
            event.preventDefault();
            query.focus();
        } else if (event.key === 'Escape') {
            query.value = '';
            show('');
        }
    });
    show(query.value); // a browser that goes back has kept it
}
