/** Ways to break the daemon from outside, and the invariants that each may break. */
import { step } from '../../src/session/decision.ts';
import type { SessionRecord } from '../../src/session/session.ts';
import type { SessionIndex } from '../../src/state/session-index.ts';
import type { Variant } from './variant.ts';

export interface Broken {
  readonly variant: Variant;
  readonly breaks: readonly string[];
}

const SAFETY = ['1', '2', '4', '5', 'S2'];
const ANY = [...SAFETY, '3', '7', 'P2'];

export const BROKEN: readonly Broken[] = [
  {
    breaks: SAFETY,
    variant: {
      name: 'destroys the sandbox before it is archived',
      plan: (plan) => (view, rules) => {
        const decision = plan(view, rules);
        return decision.kind === 'step' && decision.step.do === 'archive'
          ? step({ do: 'destroy' })
          : decision;
      },
    },
  },
  {
    breaks: SAFETY,
    variant: {
      name: 'takes an archive for READY as soon as it is asked for',
      parts: (parts) => {
        const { provider } = parts;
        return {
          ...parts,
          provider: {
            ...provider,
            snapshot: async (id, call) => {
              void provider.snapshot(id, call).catch(() => undefined);
              await parts.clock.sleep(4_000);
              const [begun] = (await provider.snapshots(id, call)).toReversed();
              return { id: begun?.id ?? 'unknown', state: 'ready' };
            },
          },
        };
      },
    },
  },
  {
    breaks: SAFETY,
    variant: {
      name: 'gives the claim back and destroys the sandbox before it archives',
      plan: (plan) => (view, rules) => {
        const decision = plan(view, rules);
        if (decision.kind === 'wait' || decision.step.do !== 'archive') return decision;
        return view.ours ? step({ do: 'release' }) : step({ do: 'destroy' });
      },
    },
  },
  {
    breaks: SAFETY,
    variant: {
      name: 'destroys by name instead of by id',
      parts: (parts) => {
        const { provider } = parts;
        const names = new Map<string, string>();
        return {
          ...parts,
          provider: {
            ...provider,
            list: async (query, call) => {
              const listed = await provider.list(query, call);
              const [name] = query.tags;
              if (name !== undefined) for (const { id } of listed) names.set(id, name);
              return listed;
            },
            create: async (request, call) => {
              const made = await provider.create(request, call);
              names.set(made.id, request.tags[0] ?? '');
              return made;
            },
            destroy: async (id, call) => {
              const name = names.get(id);
              const all =
                name === undefined ? [] : await provider.list({ tags: [name], include: 'active' }, call);
              for (const one of all) await provider.destroy(one.id, call);
              await provider.destroy(id, call);
            },
          },
        };
      },
    },
  },
  {
    breaks: SAFETY,
    variant: {
      name: 'reads an absent session as terminated',
      plan: (plan) => (view, rules) =>
        view.sighting.gist === 'absent' && view.record !== undefined
          ? step({ do: 'terminate', why: 'terminated' })
          : plan(view, rules),
    },
  },
  {
    breaks: ANY,
    variant: {
      name: 'writes no intent before it creates',
      parts: (parts) => ({
        ...parts,
        index: withPut(parts.index, (name, record) => {
          const { createTag, createAskedAt, ...rest } = record;
          parts.index.put(name, createTag === undefined && createAskedAt === undefined ? record : rest);
        }),
      }),
    },
  },
  {
    breaks: ['flash'],
    variant: {
      name: 'believes one read that says suspended',
      rules: (rules) => ({ ...rules, suspendLooks: 1 }),
    },
  },
  {
    breaks: ANY,
    variant: {
      name: 'lets an old attempt write after it was given up',
      parts: (parts) => {
        const { index, clock } = parts;
        return {
          ...parts,
          index: withPut(index, (name, record) => {
            index.put(name, record);
            void clock.sleep(20_000).then(() => index.put(name, record));
          }),
        };
      },
    },
  },
  {
    breaks: ANY,
    variant: {
      name: 'judges sandboxes without reading their markers',
      parts: (parts) => ({
        ...parts,
        remote: { ...parts.remote, readMarker: () => Promise.resolve(undefined) },
      }),
    },
  },
  {
    breaks: ['5', '4'],
    variant: {
      name: 'deletes the old archive before the new one is recorded',
      parts: (parts) => {
        const { provider, index } = parts;
        return {
          ...parts,
          provider: {
            ...provider,
            snapshot: async (id, call) => {
              for (const [, record] of index.entries()) {
                if (record.sandboxId !== id || record.archive === undefined) continue;
                await provider.deleteSnapshot(record.archive.snapshotId, call);
              }
              return await provider.snapshot(id, call);
            },
          },
        };
      },
    },
  },
  {
    breaks: SAFETY,
    variant: {
      name: 'adopts whatever sandbox carries the name',
      parts: (parts) => ({
        ...parts,
        remote: {
          ...parts.remote,
          // A restored marker passes for the sandbox's own.
          readMarker: async (target, call) => {
            const marker = await parts.remote.readMarker(target, call);
            return marker === undefined ? undefined : { ...marker, sandboxId: target.sandboxId };
          },
        },
      }),
    },
  },
  {
    breaks: ['5'],
    variant: {
      name: 'deletes an archive that it could not restore',
      parts: (parts) => ({
        ...parts,
        index: withPut(parts.index, (name, record) => {
          const { setAside = [], ...rest } = record;
          const obsolete = [...new Set([...(record.obsolete ?? []), ...setAside])];
          parts.index.put(name, setAside.length === 0 ? record : { ...rest, obsolete });
        }),
      }),
    },
  },
];

function withPut(index: SessionIndex, put: (name: string, record: SessionRecord) => void): SessionIndex {
  return {
    get: (name) => index.get(name),
    entries: () => index.entries(),
    get size() {
      return index.size;
    },
    put,
    delete: (name) => index.delete(name),
    failures: (name) => index.failures(name),
    histories: () => index.histories(),
    putFailures: (name, history) => index.putFailures(name, history),
    clearFailures: (name) => index.clearFailures(name),
    commit: () => index.commit(),
    get trouble() {
      return index.trouble;
    },
  };
}
