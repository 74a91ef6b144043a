/** How the emulator writes its answers, with the drifts that were seen in the field. */
import type { Knobs } from './settings.ts';
import type { Session } from './store.ts';

type Json = Readonly<Record<string, unknown>>;

export function entryJson(session: Session, outpostId: string, knobs: Knobs, grant?: Json): Json {
  const camel = knobs.names === 'camel';
  const key = (name: string): string =>
    camel ? name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()) : name;
  const rename = (fields: Json): Json =>
    Object.fromEntries(Object.entries(fields).map(([name, value]) => [key(name), value]));
  return {
    metadata: rename({
      session_id: session.id,
      outpost_id: outpostId,
      created_at: session.createdAt / 1_000,
      updated_at: session.updatedAt / 1_000,
    }),
    spec: rename({
      kind: session.kind,
      platform: session.platform,
      remote_binary_sha: session.remoteSha ?? null,
      ...(session.networkPolicy === undefined ? {} : { network_policy: session.networkPolicy }),
    }),
    status: rename({
      phase: session.phase,
      acceptor_id: session.acceptor ?? null,
      ...deadline(session.claimDeadline, knobs),
      session_status: session.status,
      ...grant,
    }),
  };
}

function deadline(at: number | undefined, knobs: Knobs): Json {
  if (knobs.deadline === 'absent') return {};
  if (at === undefined) return { claim_deadline: null };
  switch (knobs.deadline) {
    case 'seconds':
      return { claim_deadline: at / 1_000 };
    case 'milliseconds':
      return { claim_deadline: at };
    case 'iso':
      return { claim_deadline: new Date(at).toISOString() };
  }
}
