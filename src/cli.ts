#!/usr/bin/env node
// Keeps what V8 compiled, and the TypeScript it was made from, for the next start: a third of the time until the server
// listens. Beside the package and not in the system's temporary directory, where another user could plant code. Where this
// user may not write, there is no cache.
import { enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';

enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/homard', import.meta.url)));
const { main } = await import('./commands.ts');
await main(process.argv.slice(2));
