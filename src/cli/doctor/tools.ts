/** What a sandbox's image must have. dvo installs git, curl and certificates itself where it may; the rest it cannot. */
import type { Words } from '../../remote/script.ts';
import { fail, pass, type Finding } from './check.ts';

/** Answers `tools`, then `can-install` or `cannot-install`, then what is missing. */
export const TOOLS = `
missing=()
command -v git >/dev/null || missing+=(git)
command -v curl >/dev/null || command -v wget >/dev/null || missing+=(curl)
command -v sha256sum >/dev/null || command -v shasum >/dev/null || command -v openssl >/dev/null || command -v python3 >/dev/null || missing+=(sha256sum)
for tool in flock setsid tar; do command -v "$tool" >/dev/null || missing+=("$tool"); done
if [ -n "$user" ]; then
  id -u -- "$user" >/dev/null 2>&1 || missing+=("user:$user")
  command -v setpriv >/dev/null || missing+=(setpriv)
fi
can=cannot-install
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && can=can-install
finish tools "$can" "\${missing[@]}"`;

const INSTALLED_BY_DVO = new Set(['git', 'curl']);

export function judgeTools([, can, ...missing]: Words): Finding {
  if (missing.length === 0) return pass('all there');
  const needed = missing.filter((tool) => can !== 'can-install' || !INSTALLED_BY_DVO.has(tool));
  if (needed.length === 0)
    return pass(
      `dvo installs ${missing.join(' and ')} into each new sandbox; an image that has them starts faster`,
    );
  return fail(
    `the image lacks: ${needed.join(', ')}`,
    needed.some((tool) => tool.startsWith('user:'))
      ? 'unset SANDBOX_USER, or use an image that has this user (docs/worker-image)'
      : 'use an image that has them (SANDBOX_IMAGE): docs/worker-image has a recipe',
  );
}
