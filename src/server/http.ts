// The HTTP application: who may call (Host, Origin, caller), request ids, errors as JSON; then the routes.
import { Hono } from 'hono';
import { messageOf } from '../kernel/index.ts';
import type { ServerEnvironment, ServerParts } from './context.ts';
import { serverError, toErrorBody } from './errors.ts';
import { approvalRoutes } from './routes/approvals.ts';
import { backupRoutes } from './routes/backup.ts';
import { chatRoutes } from './routes/chat.ts';
import { conversationRoutes } from './routes/conversations.ts';
import { feedRoutes } from './routes/feed.ts';
import { fileRoutes } from './routes/files.ts';
import { modelRoutes } from './routes/models.ts';
import { openApiRoutes } from './routes/openapi.ts';
import { runRoutes } from './routes/runs.ts';
import { setupRoutes } from './routes/setup.ts';
import { workspaceRoutes } from './routes/workspace.ts';
import { usageRoutes } from './routes/usage.ts';
import { acceptsHtml } from './static.ts';

const READING = new Set(['GET', 'HEAD', 'OPTIONS']);
/** What only ends work, or frees space: a full disk must not keep it from that. Of an approval the journal knows what was decided. */
const ENDING = /^(?:(?:DELETE \/runs|POST \/approvals)\/[^/]+|DELETE \/conversations\/[^/]+\/files\/content)$/;
/** What is posted there does not go to the database. */
const NO_WRITES = /^\/(?:backup|setup)(?:\/|$)/;

export function createHttpApp(parts: ServerParts): Hono<ServerEnvironment> {
  const { identity, signIn, page, care, describe, isReachable, log, config } = parts;
  const app = new Hono<ServerEnvironment>();

  app.onError((error, c) => {
    const requestId = c.get('requestId');
    const { status, body } = toErrorBody(care.health.observe(error), requestId);
    if (status >= 500) {
      log.error({ err: error, requestId, path: c.req.path }, `A request failed: ${messageOf(error)}`);
    }
    return Response.json(body, { status, headers: { 'x-request-id': requestId } });
  });

  app.use(async (c, next) => {
    c.set('requestId', crypto.randomUUID());
    if (config.hosts) checkOrigin(c.req.raw, { hosts: config.hosts, origins: config.origins });
    await next();
  });

  app.get('*', async (c, next) => (await page?.respond(c.req.raw)) ?? (await next()));

  app.get('/', async (c) => c.text(!page || (await page.isBuilt()) ? WELCOME : WELCOME + NOT_BUILT));

  app.get('/health', async (c) => {
    const caller = await identity(c.req.raw);
    const isUp = await isReachable();
    const problem = care.health.problem();
    const status = problem ? 'degraded' : isUp ? 'ok' : 'store_unreachable';
    const told = caller && { ...describe(), ...(problem && { problem }) };
    return c.json({ status, ...told }, isUp ? 200 : 503);
  });

  app.get('/sign-in', async (c) => {
    const cookie = await signIn?.redeem(c.req.query('code') ?? '');
    const isPerson = acceptsHtml(c.req.raw) && (await page?.isBuilt());
    if (!cookie && isPerson) return c.redirect('/sign-in?problem=link_expired', 303);
    if (!cookie) throw serverError('link_expired', 'This sign-in link was used already, or is too old.');
    return new Response(null, {
      status: 303,
      headers: { location: '/', 'set-cookie': cookie, 'referrer-policy': 'no-referrer' },
    });
  });

  app.use(async (c, next) => {
    const caller = await identity(c.req.raw);
    if (!caller) throw serverError('unauthorized', 'This request has no valid token and no sign-in cookie.');
    c.set('caller', caller);
    if (!READING.has(c.req.method) && !NO_WRITES.test(c.req.path)) {
      care.health.assertWritable({ isEnding: ENDING.test(`${c.req.method} ${c.req.path}`) });
    }
    await next();
  });

  app.route('/', chatRoutes(parts));
  app.route('/', runRoutes(parts));
  app.route('/', conversationRoutes(parts));
  app.route('/', fileRoutes(parts));
  app.route('/', workspaceRoutes(parts));
  app.route('/', approvalRoutes(parts));
  app.route('/', feedRoutes(parts));
  app.route('/', usageRoutes(parts));
  app.route('/', backupRoutes(parts));
  app.route('/', modelRoutes(parts));
  app.route('/', setupRoutes(parts));
  app.route('/', openApiRoutes(parts));
  app.notFound((c) => {
    const { status, body } = toErrorBody(
      serverError('not_found', `There is no ${c.req.method} ${c.req.path}.`),
      c.get('requestId'),
    );
    return Response.json(body, { status });
  });
  return app;
}

/**
 * A page elsewhere must not reach this server through the user's browser: neither by a name that an attacker points
 * here (Host), nor from its own pages (Origin). Another port of this machine is elsewhere, too: cookies do not know ports.
 */
function checkOrigin(
  request: Request,
  { hosts, origins }: { hosts: readonly string[]; origins: readonly string[] },
): void {
  const host = request.headers.get('host') ?? '';
  if (!isKnown(host, hosts)) throw serverError('host_refused', `This server is not called "${host.slice(0, 200)}".`);
  const origin = request.headers.get('origin');
  if (origin === null) return;
  const name = URL.canParse(origin) ? new URL(origin).host : '';
  if (!name || (name !== host && !isKnown(name, origins))) {
    throw serverError('origin_refused', `Requests from ${origin.slice(0, 200)} are not accepted.`);
  }
}

function isKnown(host: string, hosts: readonly string[]): boolean {
  return hosts.includes(host) || hosts.includes(host.replace(/:\d+$/, ''));
}

const WELCOME = `Homard is running. Where it was started, it printed a sign-in link and a command to talk to it.

  POST /chat/stream {"query": "Hello!"}     an answer as a stream of events
  GET  /conversations                       what was said
  GET  /health                              how the server is
`;

const NOT_BUILT = `
The page is not built in this checkout. "npm run build" builds it; reload this address then.
`;
