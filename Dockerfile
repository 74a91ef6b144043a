# syntax=docker/dockerfile:1

FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
# The dev dependency `node` brings a Node for machines with an older one; this image has its own.
RUN npm ci --no-fund --no-audit
COPY tsconfig.json .tsconfig.build.json ./
COPY src ./src
RUN npm run build
RUN npm prune --omit=dev --no-fund --no-audit

# The CoreWeave SDK is an optional peer: the image has it, a checkout need not.
FROM node:24-slim AS sdk
WORKDIR /sdk
RUN npm install --no-fund --no-audit --no-package-lock '@coreweave/cwsandbox@>=0.5.0-beta.0 <2'

FROM node:24-slim
ENV NODE_ENV=production \
    STATE_DIR=/var/lib/dvo \
    OPS_HOST=127.0.0.1 \
    OPS_PORT=8080 \
    LOG_FORMAT=json
WORKDIR /app
COPY --from=sdk /sdk/node_modules ./node_modules
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY package.json LICENSE ./
RUN groupadd --system --gid 10001 dvo \
 && useradd --system --uid 10001 --gid dvo --home-dir /var/lib/dvo --shell /usr/sbin/nologin dvo \
 && install -d -o dvo -g dvo -m 0700 /var/lib/dvo
# The dashes keep Node from taking `connect --env-file` for itself; exec leaves Node in the place of the shell.
COPY --chmod=0755 <<'EOF' /usr/local/bin/dvo
#!/bin/sh
exec node --enable-source-maps -- /app/dist/main.js "$@"
EOF
USER 10001:10001
VOLUME /var/lib/dvo
STOPSIGNAL SIGTERM
# Node is PID 1 and handles SIGTERM itself; it starts no children with the CoreWeave provider, so there is nothing to reap.
HEALTHCHECK --interval=30s --timeout=5s --start-period=15s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.OPS_PORT}/healthz`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["dvo"]
CMD ["run"]
