/** Elements, and the two small drawings: a life and a curve. Text only ever enters as text. */
import { span, STAGE_WORDS, stretches } from './words.js';

/** An element with attributes and children; strings become text nodes. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child !== undefined));
  return element;
}

/** Text that others wrote, kept from turning its surroundings around when it is right-to-left. */
export function foreign(text, attributes = {}) {
  return make('bdi', attributes, text);
}

const SVG = 'http://www.w3.org/2000/svg';

function draw(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** More stretches than these would be thinner than a pixel. */
const MOST_STRETCHES = 40;

/** A session's life as a bar. Lengths are logarithmic, so that seconds show beside days. */
export function drawLife(session, now) {
  const life = stretches(session, now).slice(-MOST_STRETCHES);
  const lengths = life.map(({ from, to }) => Math.log2(2 + Math.max(0, to - from) / 1000));
  const total = lengths.reduce((sum, length) => sum + length, 0);
  const words = life.map(({ stage, from, to }) => `${STAGE_WORDS[stage]} ${span(to - from)}`);
  const svg = draw('svg', {
    class: 'life',
    viewBox: '0 0 100 10',
    preserveAspectRatio: 'none',
    role: 'img',
    'aria-label': words.slice(-6).join(', '),
  });
  let x = 0;
  for (const [at, { stage }] of life.entries()) {
    const width = (lengths[at] / total) * 100;
    const title = draw('title', {}, words[at]);
    svg.append(
      draw('rect', { x, y: 0, width: Math.max(0.5, width - 0.7), height: 10, 'data-stage': stage }, title),
    );
    x += width;
  }
  return svg;
}

const HOUR_MS = 3_600_000;

/**
 * One hour of a number.
 * @param samples `{at, value, limit?}`, oldest first
 * @param scaleText what the top of the drawing is, in words
 */
export function drawCurve(samples, now, scaleText, label) {
  const top = Math.max(1, ...samples.map(({ value, limit }) => Math.max(value, limit ?? 0)));
  const x = (at) => Math.max(0, 100 - ((now - at) / HOUR_MS) * 100);
  const y = (value) => 38 - (value / top) * 36;
  const points = samples.map(({ at, value }) => `${x(at).toFixed(2)},${y(value).toFixed(2)}`);
  const last = samples.at(-1);
  if (last !== undefined) points.push(`100,${y(last.value).toFixed(2)}`);
  const svg = draw('svg', {
    viewBox: '0 0 100 40',
    preserveAspectRatio: 'none',
    role: 'img',
    'aria-label': label,
  });
  svg.append(draw('line', { class: 'base', x1: 0, x2: 100, y1: 38, y2: 38 }));
  const limit = last?.limit;
  if (limit !== undefined)
    svg.append(draw('line', { class: 'limit', x1: 0, x2: 100, y1: y(limit), y2: y(limit) }));
  if (points.length > 0) {
    const first = x(samples[0].at).toFixed(2);
    svg.append(draw('polygon', { class: 'area', points: `${first},38 ${points.join(' ')} 100,38` }));
    svg.append(draw('polyline', { class: 'curve', points: points.join(' ') }));
  }
  const scale = make(
    'p',
    { class: 'scale', 'aria-hidden': 'true' },
    make('span', {}, '1 h ago'),
    make('span', {}, scaleText),
    make('span', {}, 'now'),
  );
  return [svg, scale];
}
