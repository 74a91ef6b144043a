/**
 * A stand-in for devin-remote: one executable file that connects out with its token, runs the commands it is sent in
 * its working directory, and exits 0 when its session sleeps or ends. Plain JavaScript, kept small: it is started once
 * per session.
 */

/** The executable's text. `node`: absolute path of a Node with a global WebSocket (22 or later). */
export function standInRemote(node: string, build: string): string {
  return `#!${node}
// devin-remote stand-in, build ${build}
${PROGRAM}`;
}

const PROGRAM = `
const { spawn } = require('node:child_process');
const { DEVIN_OUTPOST_GATEWAY_URL: url, DEVIN_OUTPOST_CONNECT_TOKEN: token, DEVIN_OUTPOST_SESSION_ID: session } = process.env;
if (process.argv[2] !== 'serve' || !url || !token || !session || !process.env.DEVIN_REMOTE_STATE_DIR) {
  console.error('devin-remote: not started by the contract');
  process.exit(64);
}
let waitMs = 50;
function connect() {
  const socket = new WebSocket(url);
  const send = (message) => socket.send(JSON.stringify(message));
  socket.addEventListener('open', () => {
    send({ type: 'hello', session, token, pid: process.pid, cwd: process.cwd(), env: Object.keys(process.env) });
  });
  socket.addEventListener('message', (event) => handle(JSON.parse(event.data), send));
  socket.addEventListener('error', () => {});
  socket.addEventListener('close', (event) => {
    if (event.code === 4401) { console.error('devin-remote: token refused'); process.exit(77); }
    setTimeout(connect, waitMs);
    waitMs = Math.min(waitMs * 2, 2000);
  });
}
function handle(message, send) {
  waitMs = 50;
  if (message.type === 'welcome') console.log('devin-remote: connected, session ' + session);
  if (message.type === 'exit') { console.log('devin-remote: session over'); process.exit(0); }
  if (message.type === 'crash') process.exit(message.code);
  if (message.type === 'ignore-term') process.on('SIGTERM', () => {});
  if (message.type === 'run') run(message, send);
}
function run({ id, command }, send) {
  console.log('devin-remote: running ' + JSON.stringify(command));
  const child = spawn('/bin/sh', ['-c', command], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  const take = (chunk) => { output += chunk; process.stdout.write(chunk); };
  child.stdout.on('data', take);
  child.stderr.on('data', take);
  child.on('exit', (code, signal) => setTimeout(() => send({ type: 'result', id, code: code ?? 128, signal, output }), 5));
}
connect();
`;
