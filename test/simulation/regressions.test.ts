/**
 * Faults that the simulation found, each with the seed that showed it. A seed means something only as long as the worlds
 * stay as they are: when they change, take a repair out, look for a new seed, and put it here.
 */
import { describe, expect, it } from 'vitest';
import { profileOf, worldOf } from './profile.ts';
import { run } from './run.ts';

/** In worlds where nobody gives orders. */
const FOUND: readonly (readonly [seed: number, fault: string])[] = [
  [34, 'a sleeping session that was deleted took a slot beyond the limit'],
  [33, 'a sandbox was destroyed in which another daemon had begun to serve'],
  [157, 'a daemon that came late stopped and destroyed what another had taken over'],
  [20, 'the marker in a restored archive made an unused spare pass for the sandbox of the session'],
  [111, 'a session woke from the archive of its record, although another daemon had made a newer one'],
  [
    150,
    'an archive that another daemon had replaced could not be restored, and nothing newer was looked for',
  ],
  [173, 'a session that never slept began empty at the next daemon, because it counted as new'],
  [140, 'one failed read of the marker passed for a damaged one, and the workspace was left behind'],
  [
    242,
    'a write that failed after the destroy left a record without a sandbox that was planned as if it ran',
  ],
  [27, 'a sandbox made under a claim that had lapsed was used when another daemon had served meanwhile'],
  [6, 'an unanswered create was repeated before it could have shown in a list'],
  [395, 'a second archive was begun beside one that a forgotten attempt was still making'],
  [299, 'a sandbox under a lapsed claim was destroyed after another daemon had taken it over'],
  [165, 'a prepared but unused sandbox was destroyed after another daemon had taken it over'],
  [23, 'archives that failed were left behind for ever'],
  [123, 'a claim on an ended session was released again and again'],
  [355, 'a claim that arrived late put one session more than allowed to work'],
  [10_139, 'a marker that could not be read, after other failures, left another daemon’s workspace behind'],
  [
    1_796_133_207_289,
    'a claim of an earlier life was taken for a stranger’s, because the queue was silent for a minute after the start',
  ],
  [1_796_133_207_546, 'an event, a look and a list within one flash of "suspended" were believed'],
  [870, 'a sandbox that the janitor took up was left alone for ever, because the disk refused one write'],
  [529, 'an archive that could not be restored once hid the newer one of another daemon'],
  [
    1_796_137_865_013,
    'a death between a claim and starting over left a held session on a sandbox of before the lapse',
  ],
  [1_796_137_865_341, 'the archive of a request that arrived twice was left when its session expired'],
  [1230, 'archives that broke off were left when their session ended without one'],
  [
    1_796_422_089_746,
    'after other failures one garbled read of the marker passed for a damaged one, and an empty volume was archived',
  ],
  [1_796_422_090_150, 'an archive that another daemon had made of a kept sandbox was left when it expired'],
  [
    1_796_422_094_513,
    'a death right after the destroy left in doubt whether a second archive of it could go when it expired',
  ],
  [
    1_796_422_804_361,
    'a claim of an earlier life was taken for a stranger’s, because the platform could not be asked for a minute',
  ],
  [1_796_422_804_369, 'a sandbox was handed over with a destroy of it on its way'],
  [
    1_796_422_092_519,
    'a sandbox that could not be asked was destroyed while its new holder’s session fell asleep in it',
  ],
  [1_796_430_755_060, 'a prepare that arrived late took a sandbox back from its new holder'],
];

/** In worlds where a person gives orders by hand. */
const FOUND_ATTENDED: readonly (readonly [seed: number, fault: string])[] = [
  [1_796_636_293_986, 'a kept sandbox that was handed over by hand took a slot beyond the limit'],
  [1_796_636_296_479, 'a kept sandbox that was handed over took a slot once it was destroyed'],
  [
    1_796_636_295_896,
    'an order to delete was carried out by a daemon that had not heard that another one had the session',
  ],
  [1_796_637_142_704, 'an order that a daemon came back to deleted what another one had archived since'],
  [1_796_637_139_129, 'the archive of a sandbox that was taken over and then lost was never found again'],
  [1_796_640_831_410, 'an order that waited deleted what another daemon had archived after it'],
  [1_796_639_226_113, 'an archive of a sandbox before the kept one was left when its session expired'],
  [1_796_641_615_102, 'the exit of the remote before it bore witness that a session at work was asleep'],
  [
    1_796_642_119_699,
    'a create that was delivered twice and refused once was repeated beside what it had made',
  ],
  [
    1_796_643_383_938,
    'a create that a death had left on its way was not waited for as long as it may take to show',
  ],
  [
    1_796_643_378_209,
    'a session at work in a sandbox that no command reached was archived at once, and lost what it wrote after that',
  ],
  [1_796_647_714_163, 'a sandbox that was discarded came up and was used with its destroy on its way'],
  [
    1_796_647_715_244,
    'an archive of the daemon before was left when a sandbox that was taken over was discarded',
  ],
  [
    1_796_649_861_468,
    'a sandbox that was marked after its claim had lapsed passed for newer than an archive',
  ],
  [1_796_636_295_275, 'an archive on its way when the daemon died was left when its session ended'],
];

describe('faults found by the simulation stay repaired', () => {
  for (const [seed, fault] of FOUND) {
    it(fault, async () => {
      const { violation } = await run({ profile: worldOf(seed) });
      expect(violation, `npm run simulate -- --unattended --seed ${seed}`).toBeUndefined();
    });
  }
  for (const [seed, fault] of FOUND_ATTENDED) {
    it(fault, async () => {
      const { violation } = await run({ profile: profileOf(seed) });
      expect(violation, `npm run simulate -- --seed ${seed}`).toBeUndefined();
    });
  }
});
