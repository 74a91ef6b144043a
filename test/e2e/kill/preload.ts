/**
 * Loaded into a daemon process before its own code (`node --import`). It swaps two modules on their way in: the motor,
 * for one whose ports have points at which the process kills itself, and the local provider, for one whose root can be
 * shared by two daemons. The daemon is the product's own, whole and unchanged; nothing in it knows of any of this.
 */
import { registerHooks } from 'node:module';

const SWAPPED: Readonly<Record<string, string>> = {
  'src/orchestrator/motor.ts': './motor.ts',
  'src/sandboxes/local/provider.ts': './provider.ts',
};

registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context);
    // Only for the product: the swapped-in modules themselves get the real ones.
    if (context.parentURL === undefined || context.parentURL.includes('/test/')) return found;
    const [, swapped] = Object.entries(SWAPPED).find(([path]) => found.url.endsWith(`/${path}`)) ?? [];
    return swapped === undefined ? found : { ...found, url: new URL(swapped, import.meta.url).href };
  },
});
