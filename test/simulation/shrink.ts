/** Makes a failing history small: leaves out faults and users for as long as the same invariant still breaks. */
import { run, type Outcome, type RunOptions } from './run.ts';

export interface Shrunk {
  readonly outcome: Outcome;
  readonly faults: readonly string[];
  readonly users: readonly number[];
  readonly runs: number;
}

/** @param budget how many runs it may take */
export async function shrink(options: RunOptions, failed: Outcome, budget = 300): Promise<Shrunk> {
  const kind = kindOf(failed);
  let best = failed;
  let faults: readonly string[] = failed.world.faults.fired;
  let users: readonly number[] = Array.from({ length: options.profile.users }, (_, index) => index + 1);
  let runs = 0;
  const attempt = async (fewerFaults: readonly string[], fewerUsers: readonly number[]): Promise<boolean> => {
    if (runs >= budget) return false;
    runs += 1;
    const outcome = await run({ ...options, allowed: new Set(fewerFaults), users: new Set(fewerUsers) });
    if (kindOf(outcome) !== kind) return false;
    best = outcome;
    const fired = new Set(outcome.world.faults.fired);
    faults = fewerFaults.filter((id) => fired.has(id));
    users = fewerUsers;
    return true;
  };
  for (const user of users)
    await attempt(
      faults,
      users.filter((other) => other !== user),
    );
  let size = Math.ceil(faults.length / 2);
  for (;;) {
    let smaller = false;
    for (let from = 0; from < faults.length;) {
      if (await attempt([...faults.slice(0, from), ...faults.slice(from + size)], users)) smaller = true;
      else from += size;
    }
    if (runs >= budget || (size === 1 && !smaller)) break;
    size = size === 1 ? 1 : Math.ceil(size / 2);
  }
  for (const user of users)
    await attempt(
      faults,
      users.filter((other) => other !== user),
    );
  return { outcome: best, faults, users, runs };
}

/** The invariant, without its details. */
function kindOf(outcome: Outcome): string | undefined {
  return outcome.violation?.split(':', 1)[0];
}
