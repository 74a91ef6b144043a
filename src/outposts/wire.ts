/**
 * Devin's wire, read with tolerance for the drift seen in the field: snake_case before camelCase, nested before top
 * level, unknown values become `unknown`, a missing session id fails. Everything outside this room sees QueueEntry.
 */
import { z } from 'zod';
import { parseJson } from '../lib/json.ts';
import type { NetworkPolicy, NetworkRule, QueueEntry, SessionStatus } from '../session/session.ts';

/** Longer ids are refused: they would not fit into a URL. */
const LONGEST_ID = 4_096;

const object = z.record(z.string(), z.unknown());
type Fields = z.infer<typeof object>;

export type Parsed<T> =
  | { readonly kind: 'ok'; readonly value: T }
  | { readonly kind: 'bad'; readonly why: string };

const ok = <T>(value: T): Parsed<T> => ({ kind: 'ok', value });
const bad = (why: string): Parsed<never> => ({ kind: 'bad', why });

/** One row of the queue. Times become milliseconds since the epoch. */
export function parseEntry(raw: unknown): Parsed<QueueEntry> {
  const row = fields(raw);
  if (row === undefined) return bad('not an object');
  const metadata = fields(row['metadata']) ?? {};
  const spec = fields(row['spec']) ?? {};
  const status = fields(row['status']) ?? {};
  const sessionId = sessionIdOf(row);
  if (sessionId === undefined) return bad('no session id');
  if (sessionId.length > LONGEST_ID) return bad('session id too long');
  // `status` itself may be the flat status string of a drifted answer.
  const flat = typeof row['status'] === 'string' ? row['status'] : undefined;
  return ok({
    sessionId,
    ...given('createdAt', time(find([metadata, row], 'created_at', 'createdAt'))),
    ...given('updatedAt', time(find([metadata, row], 'updated_at', 'updatedAt'))),
    kind: kind(find([spec, row], 'kind')),
    platform: lower(find([spec, row], 'platform')) ?? 'linux',
    ...given('remoteSha', string(find([spec, row], 'remote_binary_sha', 'remoteBinarySha'))),
    ...given('networkPolicy', networkPolicy(find([spec, row], 'network_policy', 'networkPolicy'))),
    phase: phase(find([status, row], 'phase')),
    ...given('acceptorId', string(find([status, row], 'acceptor_id', 'acceptorId'))),
    ...given('claimDeadline', time(find([status, row], 'claim_deadline', 'claimDeadline'))),
    status: sessionStatus(find([status, row], 'session_status', 'sessionStatus') ?? flat),
  });
}

/** The session id of anything that carries one, an event's bare one included. */
export function sessionIdOf(raw: unknown): string | undefined {
  const row = fields(raw);
  if (row === undefined) return undefined;
  const metadata = fields(row['metadata']) ?? {};
  return string(find([metadata, row], 'session_id', 'sessionId', 'id'));
}

export interface WirePage {
  readonly rows: readonly unknown[];
  readonly cursor?: string;
  readonly hasNext: boolean;
}

/** @param first the page size that was asked for: without a flag, only a full page can have a next one */
export function parsePage(raw: unknown, first: number): Parsed<WirePage> {
  const page = fields(raw);
  const items = page === undefined ? undefined : page['items'];
  if (page === undefined || !Array.isArray(items)) return bad('no items');
  const rows: readonly unknown[] = items;
  const cursor = string(find([page], 'cursor', 'next_cursor', 'nextCursor', 'end_cursor', 'endCursor'));
  const flag = find([page], 'has_next_page', 'hasNextPage');
  const hasNext = typeof flag === 'boolean' ? flag : cursor !== undefined && rows.length >= first;
  return ok({ rows, hasNext, ...given('cursor', cursor) });
}

export type WireEvent =
  | { readonly kind: 'changed'; readonly raw: unknown; readonly cursor?: string }
  | { readonly kind: 'deleted'; readonly raw: unknown; readonly cursor?: string };

/** The text of one event's `data`. A bad event may still carry a cursor. */
export function parseEvent(data: string): Parsed<WireEvent> & { readonly cursor?: string } {
  const event = fields(parseJson(data));
  if (event === undefined) return bad('not JSON, or not an object');
  const cursor = given('cursor', string(find([event], 'cursor', 'next_cursor', 'nextCursor')));
  const raw = find([event], 'object', 'data', 'entry') ?? event;
  switch (lower(event['type']) ?? '') {
    case 'added':
    case 'modified':
    case 'updated':
      return { ...ok({ kind: 'changed' as const, raw, ...cursor }), ...cursor };
    case 'deleted':
      return { ...ok({ kind: 'deleted' as const, raw, ...cursor }), ...cursor };
    default:
      return { ...bad('unknown event type'), ...cursor };
  }
}

export interface WireGrant {
  readonly entry: QueueEntry;
  readonly connectToken?: string;
  readonly gatewayUrl?: string;
}

export function parseGrant(raw: unknown): Parsed<WireGrant> {
  const entry = parseEntry(raw);
  if (entry.kind === 'bad') return entry;
  const row = fields(raw) ?? {};
  const status = fields(row['status']) ?? {};
  return ok({
    entry: entry.value,
    ...given('connectToken', string(find([status, row], 'connect_token', 'connectToken'))),
    ...given('gatewayUrl', string(find([status, row], 'gateway_url', 'gatewayUrl'))),
  });
}

function fields(raw: unknown): Fields | undefined {
  const parsed = object.safeParse(raw);
  return parsed.success && !Array.isArray(raw) ? parsed.data : undefined;
}

/** The first of `names` that is there and not null, in the first of `places` that has any. */
function find(places: readonly Fields[], ...names: readonly string[]): unknown {
  for (const place of places) {
    for (const name of names) {
      const value = Object.hasOwn(place, name) ? place[name] : undefined;
      if (value !== undefined && value !== null) return value;
    }
  }
  return undefined;
}

function given<Key extends string, T>(key: Key, value: T | undefined): { readonly [K in Key]?: T };
function given(key: string, value: unknown): Readonly<Record<string, unknown>> {
  return value === undefined ? {} : { [key]: value };
}

function string(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function lower(value: unknown): string | undefined {
  return string(value)?.toLowerCase();
}

/** Above this a number of seconds would be in the year 5138, so it is milliseconds. */
const SECONDS_END = 1e11;

/** Seconds, milliseconds (observed for claim deadlines) or ISO 8601 (observed too), as milliseconds. */
function time(value: unknown): number | undefined {
  if (typeof value === 'number' && Number.isFinite(value) && value > 0) {
    return Math.round(value < SECONDS_END ? value * 1_000 : value);
  }
  if (typeof value !== 'string') return undefined;
  if (/^\d+(\.\d+)?$/.test(value)) return time(Number(value));
  const parsed = Date.parse(value);
  return Number.isNaN(parsed) ? undefined : parsed;
}

function kind(value: unknown): QueueEntry['kind'] {
  const name = lower(value);
  return name === 'new' || name === 'resume' ? name : 'unknown';
}

function phase(value: unknown): QueueEntry['phase'] {
  const name = lower(value);
  return name === 'pending' || name === 'claimed' ? name : 'unknown';
}

/** The contract's section 2: statuses that others have seen fold into the documented ones. */
const STATUSES: ReadonlyMap<string, SessionStatus> = new Map([
  ['pending', 'pending'],
  ['new', 'pending'],
  ['running', 'running'],
  ['claimed', 'running'],
  ['resuming', 'running'],
  ['suspended', 'suspended'],
  ['terminated', 'terminated'],
  ['exit', 'over'],
  ['error', 'over'],
]);

function sessionStatus(value: unknown): SessionStatus {
  return STATUSES.get(lower(value) ?? '') ?? 'unknown';
}

/** A policy that cannot be read is one that cannot be enforced: it must not read as "no policy". */
function networkPolicy(value: unknown): NetworkPolicy | undefined {
  if (value === undefined) return undefined;
  const policy = fields(value);
  if (policy === undefined)
    return { enabled: true, allow: [{ kind: 'unknown', value: 'unreadable policy' }] };
  const { enabled, allow } = policy;
  if (enabled === false) return { enabled: false, allow: [] };
  const list: readonly unknown[] = Array.isArray(allow) ? allow : [];
  const rules = list.map(networkRule);
  if (allow !== undefined && allow !== null && !Array.isArray(allow))
    rules.push({ kind: 'unknown', value: 'unreadable list' });
  return { enabled: true, allow: rules };
}

function networkRule(raw: unknown): NetworkRule {
  if (typeof raw === 'string') return { kind: 'hostname', value: raw };
  const rule = fields(raw) ?? {};
  for (const name of ['hostname', 'ipv4', 'ipv6'] as const) {
    const value = string(rule[name]);
    if (value !== undefined) return { kind: name, value };
  }
  return { kind: 'unknown', value: Object.keys(rule).join(',') };
}
