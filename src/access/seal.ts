// What a client sends with a message and nobody should read later: encrypted in the record, with a key of the data directory.
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { accessError, loadSecret } from './sign-in.ts';

export interface Seal {
  close(text: string): string;
  /** The same for the same text, and nothing that could be tried out without the key. */
  digest(text: string): string;
  /** Throws `access.seal_broken` where the key is another one, or the text was changed. */
  open(sealed: string): string;
}

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** AES-256-GCM; its key is derived from the file `secret` in the directory, which is made when absent. */
export async function createSeal(directory: string): Promise<Seal> {
  const secret = Buffer.from(await loadSecret(join(directory, 'secret')), 'hex');
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'homard seal', 32));
  return {
    digest: (text) => createHmac('sha256', key).update(text).digest('hex'),
    close(text) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv('aes-256-gcm', key, nonce);
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
      return Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64');
    },
    open(sealed) {
      const bytes = Buffer.from(sealed, 'base64');
      try {
        const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, NONCE_BYTES));
        decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
        return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]).toString();
      } catch (error) {
        throw accessError('seal_broken', 'The environment of this message cannot be read any more.', { cause: error });
      }
    },
  };
}
