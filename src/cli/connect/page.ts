/** The page that the browser ends on: says what happened, and nothing else. No scripts, nothing from elsewhere. */

export interface Ending {
  readonly ok: boolean;
  readonly title: string;
  readonly text: string;
}

export const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'content-security-policy':
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
} as const;

export function endingPage({ ok, title, text }: Ending): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escapeHtml(title)}</title>
<style>
:root { color-scheme: light dark }
body { font: 1.1rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 18vh auto 0; padding: 0 1.5rem }
h1 { font-size: 1.5rem }
h1::before { content: "${ok ? '✔' : '✖'}"; color: ${ok ? '#2a8f4f' : '#c8372d'}; margin-right: .6rem }
</style>
<main>
<h1>${escapeHtml(title)}</h1>
<p>${escapeHtml(text)}</p>
</main>
</html>
`;
}

function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}
