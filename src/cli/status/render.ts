/** The status view as lines of text. Pure. */
import type { SessionView, StatusView } from '../../ops/view.ts';

/** Paints a text; without colours it gives it back. */
export type Paint = (text: string, tone: 'good' | 'bad' | 'dim' | 'bold') => string;

const HEAD = [
  'SESSION',
  'STAGE',
  'SINCE',
  'SANDBOX',
  'LIFE LEFT',
  'RESTARTS',
  'ARCHIVE',
  'LAST ERROR',
] as const;
const LONGEST_ERROR = 60;

export function renderStatus(view: StatusView, paint: Paint): string {
  const lines = [...headLines(view, paint), ''];
  if (view.sessions.length === 0) lines.push('No sessions.');
  else lines.push(...table([HEAD, ...view.sessions.map((one) => row(one, view.at))], paint));
  if (view.waiting.length > 0) {
    lines.push('', paint('Waiting', 'bold'));
    for (const { sessionId, createdAt, why } of view.waiting) {
      const since = createdAt === undefined ? '' : ` ${ago(view.at - createdAt)}`;
      lines.push(`  ${sessionId}${since}: ${why}`);
    }
  }
  return `${lines.join('\n')}\n`;
}

function headLines(view: StatusView, paint: Paint): readonly string[] {
  const { daemon, slots, outpostId, acceptorId } = view;
  const asleep = view.sessions.filter(({ stage }) => stage === 'suspended').length;
  const used = slots.max === undefined ? `${slots.used}` : `${slots.used} of ${slots.max}`;
  const totals = `slots ${used} · asleep ${asleep} · waiting ${view.waitingCount ?? view.waiting.length}`;
  const who = `${paint('dvo', 'bold')} ${outpostId} as ${acceptorId}`;
  if (daemon === undefined) {
    return [who, paint('No daemon runs: this is what its index says, without the queue.', 'bad'), totals];
  }
  const up = `${daemon.provider} · version ${daemon.version} · up ${ago(view.at - daemon.startedAt)}`;
  const admission =
    daemon.admission.length === 0
      ? [paint('admission open', 'good')]
      : daemon.admission.map(({ reason, detail }) => paint(`admission paused (${reason}): ${detail}`, 'bad'));
  const ready = daemon.ready.reasons.map((reason) => paint(`not well: ${reason}`, 'bad'));
  return [`${who} · ${up}`, totals, ...admission, ...ready];
}

function row(session: SessionView, now: number): readonly string[] {
  const { sessionId, stage, since, sandboxId, lifetimeEndsAt, restarts, archive, lastError } = session;
  return [
    sessionId,
    stage,
    ago(now - since),
    sandboxId ?? '-',
    lifetimeEndsAt === undefined ? '-' : ago(lifetimeEndsAt - now),
    String(restarts),
    archive === undefined ? '-' : `${ago(now - archive.takenAt)} ago`,
    lastError === undefined ? '-' : shortened(`${lastError.step}: ${lastError.message}`),
  ];
}

function table(rows: readonly (readonly string[])[], paint: Paint): readonly string[] {
  const widths = HEAD.map((_, column) => Math.max(...rows.map((one) => one[column]?.length ?? 0)));
  return rows.map((cells, at) => {
    const line = cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
    return at === 0 ? paint(line, 'dim') : line;
  });
}

/** "42 s", "7 min", "3 h", "2 d". */
function ago(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** One line, without what could move a terminal's cursor. */
function shortened(text: string): string {
  const plain = text.replaceAll(/[\p{C}\s]+/gu, ' ');
  return plain.length > LONGEST_ERROR ? `${plain.slice(0, LONGEST_ERROR - 1)}…` : plain;
}
