/**
 * Loaded into a daemon process before its own code (`node --import`). It swaps two modules on their way in: the motor,
 * for one whose ports have points at which the process kills itself, and the local provider, for one whose root can be
 * shared by two daemons. The daemon is the product's own, whole and unchanged; nothing in it knows of any of this.
 */
import { registerHooks } from 'node:module';

const SWAPPED: Readonly<Record<string, string>> = {
  './motor.ts': new URL('./motor.ts', import.meta.url).href,
  '../sandboxes/local/provider.ts': new URL('./provider.ts', import.meta.url).href,
};

registerHooks({
  resolve(specifier, context, next) {
    const swapped = context.parentURL?.endsWith('/src/orchestrator/daemon.ts') === true && SWAPPED[specifier];
    return typeof swapped === 'string' ? next(swapped, context) : next(specifier, context);
  },
});
