/** From the planner's word to the code that does it. */
import type { Step } from '../../session/decision.ts';
import type { StepContext } from '../context.ts';
import { archive, tidy } from './archive.ts';
import { adopt, claim, look, release } from './claim.ts';
import { discardSandbox, ensureSandbox } from './ensure-sandbox.ts';
import { launch, prepare, probe } from './remote.ts';
import type { StepResult } from './step.ts';
import { confirmOwner, destroy, leave, revive, settle, stopRemote, withdraw } from './take-down.ts';
import { terminate } from './terminate.ts';

export async function runStep(ctx: StepContext, step: Step): Promise<StepResult> {
  switch (step.do) {
    case 'claim':
      return await claim(ctx);
    case 'adopt':
      return await adopt(ctx);
    case 'look':
      return await look(ctx);
    case 'release':
      return await release(ctx);
    case 'ensure-sandbox':
      return await ensureSandbox(ctx);
    case 'discard-sandbox':
      return await discardSandbox(ctx, step.why);
    case 'prepare':
      return await prepare(ctx);
    case 'launch':
      return await launch(ctx);
    case 'probe':
      return await probe(ctx);
    case 'checkpoint':
    case 'archive':
      return await archive(ctx);
    case 'withdraw':
      return await withdraw(ctx, step.ending);
    case 'stop-remote':
      return await stopRemote(ctx, step.ending);
    case 'confirm-owner':
      return await confirmOwner(ctx);
    case 'destroy':
      return await destroy(ctx);
    case 'settle':
      return await settle(ctx);
    case 'revive':
      return await revive(ctx);
    case 'terminate':
      return await terminate(ctx, step.why);
    case 'tidy':
      return await tidy(ctx);
    case 'forget':
      return await leave(ctx);
  }
}
