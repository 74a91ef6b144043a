/** What is asked of the platform for one sandbox. Pure. Nothing secret may stand in it: lists and logs show it. */
import type { CoreweaveConfig } from '../../config/coreweave.ts';
import { ProviderError, type CreateRequest } from '../provider.ts';
import { COREWEAVE_PATHS, mainCommand } from './main-command.ts';
import type { SdkCreateOptions } from './sdk.ts';

export const OFFICIAL_IMAGE = 'public.ecr.aws/e0h8a4b6/devin-cli:stable';

export type CoreweaveSettings = Omit<CoreweaveConfig, 'credential'>;

/**
 * With a template its container is used as it is, unless an image is configured: that replaces the template's container
 * whole, and with it everything that is not given again.
 *
 * @throws ProviderError `unsupported` for a restore into a template's own container, which the SDK cannot express
 */
export function createOptions(settings: CoreweaveSettings, request: CreateRequest): SdkCreateOptions {
  const { templateId, image } = settings;
  const { runnerIds } = settings;
  const network = networkOf(settings, request);
  const common: SdkCreateOptions = {
    tags: [...new Set([...request.tags, ...settings.tags])],
    maxLifetimeSeconds: settings.maxLifetimeSeconds,
    ...(runnerIds.length === 0 ? {} : { runnerIds }),
    ...(network === undefined ? {} : { network }),
    waitUntilRunning: false,
  };
  if (templateId !== undefined && image === undefined) {
    if (request.restoreFrom === undefined) return common;
    throw new ProviderError(
      'unsupported',
      'an archive cannot be restored into the container of a template: set SANDBOX_IMAGE too, or SUSPEND_MODE=keep',
    );
  }
  return {
    ...common,
    // The image's own command would be the main process, and its end the sandbox's.
    ...(templateId === undefined ? {} : { command: mainCommand(COREWEAVE_PATHS) }),
    containerImage: image ?? OFFICIAL_IMAGE,
    resources: { cpu: settings.cpu, memory: settings.memory },
    fileSystemSnapshot: {
      mountPath: COREWEAVE_PATHS.volume,
      size: settings.disk,
      ...(request.restoreFrom === undefined ? {} : { restoreFromSnapshotId: request.restoreFrom }),
    },
    ...(settings.secrets.length === 0 ? {} : { secrets: settings.secrets }),
  };
}

/** An empty list means "as the fleet does by itself" to the platform; here it means nothing at all. */
function networkOf(settings: CoreweaveSettings, request: CreateRequest): SdkCreateOptions['network'] {
  if (settings.noInternet || request.egress?.length === 0) return { denyEgress: true };
  if (request.egress === undefined) return undefined;
  return { egress: request.egress.map((dnsName) => ({ dnsName })) };
}
